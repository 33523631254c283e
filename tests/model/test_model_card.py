"""The model card: what it says is true, its lines run, and sections are put in their place."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard

from crm.judges.crm_judge import open_checkpoint
from crm.model.encoding import Encoder
from crm.model.export import export_model, load_checkpoint
from crm.model.heads import HEADS
from crm.model.late_reading import LateReader, added_up
from crm.model.manifest import read_manifest
from crm.model.model_card import write_card, write_section
from crm.schema import Comparison, Message
from tests.conftest import rounding

FACTS = {
    "max_length": 2048,
    "seed": 3,
    "commit": "abc1234",
    "validation_accuracy": 0.87654,
    "validation_n": 31,
    "config": {"model": {"path": "someone/base"}, "data": {"name": "records"}, "loss": {"name": "cls"}},
}
CRITERIA, QUERY, FIRST, SECOND = ["Likes detail", "No jargon"], "Why rain?", "Clouds cool.", "It just does."
SIDES = ((Message("assistant", FIRST),), (Message("assistant", SECOND),))
ROW = Comparison("c", "p", tuple(CRITERIA), (Message("user", QUERY),), *SIDES, "a")
MEASURED = "| a |\n|---|\n| 2 |"


def text_of(folder: Path) -> str:
    return (folder / "README.md").read_text(encoding="utf-8")


def run_snippet(folder: Path, script: Path) -> dict[str, Any]:
    """The names that the card's Python lines, written to ``script``, leave when they run on the folder."""
    (code,) = re.findall(r"```python\n(.*?)```", text_of(folder), re.DOTALL)
    code, replaced = re.subn(r'folder = "\."', f"folder = {str(folder)!r}", code)
    assert replaced == 1
    assert set(re.findall(r"^(?:import|from) (\w+)", code, re.MULTILINE)) <= {"torch", "safetensors", "transformers"}
    script.write_text(code, encoding="utf-8")
    return runpy.run_path(str(script))


@pytest.mark.parametrize(("head", "architecture"), [*zip(HEADS, ("qwen3", "qwen3", "llama", "llama"), strict=True)])
def test_it_is_true_and_its_lines_give_our_numbers(make_model, tokenizer, tmp_path, head, architecture) -> None:
    model, folder = make_model(head, architecture, seed=4), tmp_path / "model"
    if head != "late":
        torch.nn.init.normal_(model.score.weight, generator=torch.Generator().manual_seed(1))
    export_model(model, tokenizer, folder, FACTS)
    names = run_snippet(folder, tmp_path / "snippet.py")
    judge, manifest = open_checkpoint(folder, batch_size=2, precision="32-true")
    (reading,) = [one for portion in judge.read([(ROW, "ab")]) for one in portion]
    if head in ("scalar", "late"):
        scores = [names["score"](CRITERIA, QUERY, text) for text in (FIRST, SECOND)]
        assert scores == pytest.approx([reading.score_a, reading.score_b], abs=1e-5)
    else:
        logit = names["preference_logit"](CRITERIA, QUERY, FIRST, SECOND)
        assert logit == pytest.approx(reading.preference_logit, abs=1e-5) and abs(logit) > 1e-3
    text = text_of(folder)
    table = (
        f"| head | `{head}` |\n| base model | `someone/base` |\n"
        "| longest sequence | 2048 tokens |\n| training data | `records` |\n| loss | `cls` |\n| seed | 3 |\n"
        "| validation accuracy | 0.877 (n = 31) |\n| commit | `abc1234` |\n"
        f"| digest | `{manifest['digest']}` |\n\n## Reading it"
    )
    assert f"|---|---|\n{table}" in text
    data = ModelCard.load(folder / "README.md").data
    assert data.base_model == "someone/base" and data.library_name == "transformers" and data.license is None
    pipelines = {"pairwise_span": "token-classification", "late": "feature-extraction"}
    assert data.pipeline_tag == pipelines.get(head, "text-classification")
    assert ("use_activation=false" in text) == (head != "late") and "license: <identifier>" in text
    assert ("ends the first response" in text) == (head == "pairwise_span")


def test_weighted_criteria_and_stored_vectors_of_the_card_are_ours(make_model, tokenizer, tmp_path) -> None:
    folder = tmp_path / "model"
    export_model(make_model("late", "llama", seed=4), tokenizer, folder, FACTS)
    names = run_snippet(folder, tmp_path / "snippet.py")
    model, loaded, _ = load_checkpoint(folder)
    encoder = Encoder(loaded, "late", 2048)
    reader = LateReader(model, encoder, autocast=torch.autocast("cpu", enabled=False), precision="32-true")
    (ours,) = reader.responses([(ROW.prompt, ROW.response_a)])
    torch.testing.assert_close(names["response_vector"](QUERY, FIRST), ours, rtol=0, atol=rounding(ours))
    user = added_up(reader.criterion_vectors(CRITERIA), [2.0, -0.5])
    theirs = names["user_vector"](dict(zip(CRITERIA, [2.0, -0.5], strict=True)))
    torch.testing.assert_close(theirs, user, rtol=0, atol=rounding(user))


def test_unknown_facts_and_paths_are_left_out_and_a_card_may_be_edited(make_model, tokenizer, tmp_path) -> None:
    bare, local = tmp_path / "bare", tmp_path / "local"
    digest = export_model(make_model("scalar"), tokenizer, bare, {})
    assert not re.search(r"None|\| (base model|seed|validation accuracy) \|", text_of(bare))
    (bare / "README.md").write_text("---\nlicense: mit\n---\nMine.")
    load_checkpoint(bare)
    names = {"model": "base", "data": "pairs.jsonl"}
    facts = {"config": {group: {"path": str(tmp_path / "secret" / name)} for group, name in names.items()}}
    assert export_model(make_model("scalar"), tokenizer, local, facts) == digest == read_manifest(local)["digest"]
    assert str(tmp_path) not in text_of(local) and "| base model | `base` |" in text_of(local)
    assert "| training data | `pairs.jsonl` |" in text_of(local)


def test_a_section_is_put_before_the_licence_once(tmp_path: Path) -> None:
    write_card(tmp_path, "scalar", {"max_length": 64})
    before = text_of(tmp_path)
    write_section(tmp_path, "Measured", MEASURED.replace("2", "1"))
    write_section(tmp_path, "Measured", MEASURED)
    assert text_of(tmp_path) == before.replace("\n## Licence", f"\n## Measured\n\n{MEASURED}\n\n## Licence")
    (tmp_path / "README.md").write_text("# Somebody's own\n")
    with pytest.raises(ValueError, match="not a card that was exported here"):
        write_section(tmp_path, "Measured", MEASURED)
    assert text_of(tmp_path) == "# Somebody's own\n"
