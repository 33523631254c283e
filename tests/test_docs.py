"""The README and docs are true: examples are read by the code they describe, snippets run, the tree is complete."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from crm.config import SCHEMAS, setting_names
from crm.data.encoding import PROMPT_ORDERS, PromptOrder
from crm.data.reading import Reading
from crm.data.sources.records import parse_row
from crm.judges.crm_judge import open_checkpoint
from crm.leaderboard.bank import load_bank
from crm.mistakes import group_names, option_names
from crm.models.export import export_model
from crm.schema import Comparison, Message, Preference

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}


def example(text: str, name: str) -> str:
    found = re.search(rf"<!-- {name} -->\n```\w*\n(.*?)\n```", text, re.DOTALL)
    assert found, f"no block after <!-- {name} -->"
    return found.group(1)


def test_the_example_record_is_one_and_shows_every_field(tmp_path: Path) -> None:
    path = tmp_path / "votes.jsonl"
    path.write_text(example(README, "example: records.jsonl") + "\n", encoding="utf-8")
    assert len(list(Reading(strict=True).rows(path, parse_row))) == 1
    assert set(json.loads(path.read_text(encoding="utf-8"))) == set(Preference.__dataclass_fields__)
    for field in Preference.__dataclass_fields__:
        assert f"`{field}`" in DOCS["data_formats.md"]


def test_the_example_bank_is_one(tmp_path: Path) -> None:
    file = ""
    for line in example(README, "example: bank").splitlines():
        name, row = line[:17].strip(), line[17:]
        file = name or file
        with (tmp_path / file).open("a", encoding="utf-8") as out:
            out.write(row + "\n")
    bank = load_bank(tmp_path)
    assert (bank.baseline, bank.authors, len(bank.queries)) == ("model-one", ("model-one", "model-two"), 1)


def comparison(first: str, second: str) -> Comparison:
    prompt = (Message("user", "Name a tree."),)
    responses = ((Message("assistant", first),), (Message("assistant", second),))
    return Comparison("c", "p", ("Prefers concise answers",), prompt, *responses, "a")


def run_snippet(code: str, folder: Path, capsys: Any) -> float:
    code, replaced = re.subn(r'folder = "[^"]+"', f"folder = {str(folder)!r}", code)
    assert replaced == 1
    script = folder / "snippet.py"
    script.write_text(code, encoding="utf-8")
    runpy.run_path(str(script))
    script.unlink()
    return float(capsys.readouterr().out)


@pytest.mark.parametrize("order", PROMPT_ORDERS)
@pytest.mark.parametrize("head", ["scalar", "pairwise_span"])
def test_the_loading_snippet_says_what_the_judge_says(
    head: str, order: PromptOrder, make_model: Any, tokenizer: Any, tmp_path: Path, capsys: Any
) -> None:
    model = make_model(head)
    if head == "pairwise_span":  # as after training: the two rows have parted
        torch.nn.init.normal_(model.score.weight, generator=torch.Generator().manual_seed(1))
    export_model(model, tokenizer, tmp_path, {"max_length": 2048}, order)
    judge, _ = open_checkpoint(tmp_path, batch_size=4, precision="32-true")
    assert judge.encoder.prompt_order == order
    if head == "scalar":
        said = run_snippet(example(README, "example: load"), tmp_path, capsys)
        row = comparison("In short: the oak.", "More precisely, the oak depends on the soil and the rain.")
    else:
        said = run_snippet(example(DOCS["checkpoints.md"], "example: load joint"), tmp_path, capsys)
        row = comparison("In short: the oak.", "In detail, first the oak.")
    readings = [reading for portion in judge.read([(row, "ab"), (row, "ba")]) for reading in portion]
    expected = sum(reading.preference_logit for reading in readings) / 2
    assert said == pytest.approx(expected, abs=1e-4)
    assert abs(expected) > 1e-3


def test_the_check_of_the_recorded_readings_gives_the_recorded_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pandas alone, against `summarise`; and the table on the page shows these numbers."""
    script = tmp_path / "check.py"
    script.write_text(example(DOCS["how_good.md"], "example: check"), encoding="utf-8")
    monkeypatch.chdir(ROOT)
    found = runpy.run_path(str(script))["accuracy"]
    results = pd.read_csv(ROOT / "experiments/one_model/results.csv")
    recorded = results[results["metric"] == "accuracy"].set_index(["judge", "suite"])["value"]
    assert len(recorded) > 20 and sorted(found.index) == sorted(recorded.index)
    assert found.to_dict() == pytest.approx(recorded.to_dict())
    page = DOCS["how_good.md"].split("<!-- one model -->")[1].split("<!-- /one model -->")[0]
    for line in page.strip().splitlines()[2:]:
        _, suite, _, scalar, *_ = (cell.strip() for cell in line.strip("|").split("|"))
        assert scalar.startswith(f"{recorded['scalar', suite]:.3f} ")


def test_the_tree_names_every_module_and_nothing_else() -> None:
    listed, stack = set(), [""]
    for line in example(README, "tree").splitlines():
        found = re.match(r"( +|(?=crm/))([\w./]+)", line)
        if not found:
            continue
        depth, name = len(found.group(1)) // 2, found.group(2)
        stack = [*stack[:depth], name]
        if name.endswith(".py"):
            listed.add("".join(stack))
    there = {str(path.relative_to(ROOT).as_posix()) for path in (ROOT / "crm").rglob("*.py")}
    assert listed == {name for name in there if not name.endswith("__init__.py")}


def test_links_between_the_pages_lead_somewhere() -> None:
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists() or target.endswith(".png"), f"{page.name} links to {target}"


def test_every_setting_and_option_in_the_docs_exists() -> None:
    known = {name for schema in SCHEMAS.values() for name in setting_names(schema)}
    groups = set(group_names())
    for name, page in {"README.md": README, **DOCS}.items():
        text = re.sub(r"```python\n.*?```", "", page, flags=re.DOTALL)
        for setting in re.findall(r"\b((?:%s)\.\w+)=" % "|".join(groups), text):  # noqa: UP031
            assert setting in known, f"{name}: {setting}"
        for group, options in re.findall(r"(?<![\w.])(%s)=([\w,]+)" % "|".join(groups), text):  # noqa: UP031
            for option in options.split(","):
                assert option in option_names(group), f"{name}: {group}={option}"


def test_every_group_is_documented_with_all_its_options() -> None:
    rows = {
        found.group(1): line
        for line in DOCS["configuration.md"].splitlines()
        if (found := re.match(r"\| `(\w+)` \|", line))
    }
    for group in set(group_names()) - {"suite", "bank", "experiment"}:
        for option in option_names(group):
            assert f"`{option}`" in rows[group], f"{group}: {option}"
