"""The README and docs are true: examples are read by the code they describe, snippets run."""

import itertools
import json
import random
import re
import runpy
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
import yaml

from crm.config import ENTRY_POINTS, compose, group_names, option_names, schema, setting_names
from crm.data import own
from crm.data.simulation.lexicon import AXES
from crm.io.rows import Intake
from crm.judges.crm_judge import open_checkpoint
from crm.leaderboard.bank.bank import Bank, load_bank
from crm.leaderboard.bank.opening import SimulatedBank, simulate_bank
from crm.leaderboard.ranking import Leaderboard
from crm.leaderboard.scoring import score_bank
from crm.model.export import export_model
from crm.schema import Comparison, Message, Preference, to_json
from crm.training.train import run_training
from tests.conftest import Command

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}


def example(text: str, name: str) -> str:
    found = re.search(rf"<!-- {name} -->\n```\w*\n(.*?)\n```", text, re.DOTALL)
    assert found, f"no block after <!-- {name} -->"
    return found.group(1)


def test_the_example_record_is_one_and_shows_every_field(tmp_path: Path) -> None:
    path = tmp_path / "votes.jsonl"
    path.write_text(example(DOCS["data_formats.md"], "example: records.jsonl") + "\n", encoding="utf-8")
    assert len(list(own.records(path, Intake(strict=True)))) == 1
    assert set(json.loads(path.read_text(encoding="utf-8"))) == set(Preference.__dataclass_fields__)
    for field in Preference.__dataclass_fields__:
        assert f"`{field}`" in DOCS["data_formats.md"]


def example_bank(folder: Path) -> Bank:
    file = ""
    for line in example(DOCS["data_formats.md"], "example: bank").splitlines():
        name, row = line[:17].strip(), line[17:]
        file = name or file
        with (folder / file).open("a", encoding="utf-8") as out:
            out.write(row + "\n")
    return load_bank(folder)


QUERY = "How can I change the homework for my class?"
TASTES = ("Prefers concise answers", "Prefers detailed answers")


def comparisons(code: str) -> list[Comparison]:
    """What a loading snippet compares, a taste each: its texts are taken from its code."""
    texts = {name: re.search(rf"{name} = \(\n(.*?)\n\)", code, re.DOTALL) for name in ("concise", "detailed")}
    concise, detailed = ("".join(re.findall(r'"(.*)"', found[1])) for found in texts.values() if found)
    assert f'query = "{QUERY}"' in code
    responses = ((Message("assistant", concise),), (Message("assistant", detailed),))
    return [Comparison(taste, taste, (taste,), (Message("user", QUERY),), *responses, "a") for taste in TASTES]


def printed(text: str) -> dict[str, float]:
    """Tastes and numbers of the lines that a snippet prints."""
    return {taste: float(number) for taste, number in (line.rsplit(" ", 1) for line in text.strip().splitlines())}


def run_snippet(code: str, folder: Path, capsys: Any) -> dict[str, float]:
    code, replaced = re.subn(r'folder = "[^"]+"', f"folder = {str(folder)!r}", code)
    assert replaced == 1
    script = folder / "snippet.py"
    script.write_text(code, encoding="utf-8")
    runpy.run_path(str(script))
    script.unlink()
    return printed(capsys.readouterr().out)


def test_the_loading_snippet_says_what_the_judge_says(
    make_model: Any, tokenizer: Any, tmp_path: Path, capsys: Any
) -> None:
    model = make_model("scalar")
    torch.nn.init.normal_(model.score.weight, std=100, generator=torch.Generator().manual_seed(1))
    export_model(model, tokenizer, tmp_path, {"max_length": 2048})
    judge, _ = open_checkpoint(tmp_path, batch_size=4, precision="32-true")
    code = example(README, "example: load")
    answered = run_snippet(code, tmp_path, capsys)
    asked = [(row, shown) for row in comparisons(code) for shown in ("ab", "ba")]
    readings = [reading for portion in judge.read(asked) for reading in portion]
    for taste in TASTES:
        logits = [reading.preference_logit for reading in readings if reading.comparison.id == taste]
        assert answered[taste] == pytest.approx(sum(logits) / 2, abs=0.06) and abs(answered[taste]) > 0.3  # one decimal


def votes_on_detail(simulated: SimulatedBank) -> Iterator[Preference]:
    """Votes between a detailed and a concise response to one query, by users who care about nothing else."""
    draw, axis = random.Random(0), AXES[0]
    for query in simulated.bank.queries:
        texts: dict[int, list[str]] = {1: [], 0: [], -1: []}
        for who, levels in simulated.levels.items():
            texts[levels[query.id][axis.name]].append(simulated.bank.responses[who][query.id])
        for number, pair in enumerate(zip(texts[1], texts[-1], strict=False)):
            sides = [
                (Message("assistant", text), f"Prefers {draw.choice(pole.train)}")
                for text, pole in zip(pair, (axis.plus, axis.minus), strict=True)
            ]
            draw.shuffle(sides)
            (a, likes_a), (b, likes_b) = sides
            key = f"{query.id}-{number}"
            yield Preference(key, query.prompt, (a,), (b,), draw.choice("ab"), (likes_a,), (likes_b,))


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model that has learned one taste of the simulation, detailed against concise."""
    folder = tmp_path_factory.mktemp("taught")
    votes = votes_on_detail(simulate_bank(seed=1))
    (folder / "votes.jsonl").write_text("".join(to_json(vote) + "\n" for vote in votes), encoding="utf-8")
    settings = [
        *("data=file", f"data.path={folder / 'votes.jsonl'}", "loss=ranking", "direction=both"),
        *("model.hidden_size=64", "model.layers=2", "model.heads=2", "model.vocab_size=600", "schedule.max_steps=100"),
        *("schedule.validate_every=0", "schedule.save_every=0", "trainer.progress=false", "trainer.threads=1"),
    ]
    outcome = run_training(compose("train", settings, folder / "run"))
    assert outcome.validation_accuracy > 0.95
    return outcome.checkpoint


@pytest.mark.slow
def test_the_readme_s_example_answers_the_right_way_round(taught: Path, capsys: Any) -> None:
    """The numbers on the page are those of the demo's model; their signs are what any model must get right."""
    shown = printed(example(README, "output: load"))
    assert shown["Prefers concise answers"] > 1 and shown["Prefers detailed answers"] < -1
    answered = run_snippet(example(README, "example: load"), taught, capsys)
    assert answered["Prefers concise answers"] > 1 and answered["Prefers detailed answers"] < -1


@pytest.mark.slow
def test_the_example_bank_is_won_by_the_response_that_the_criteria_ask_for(taught: Path, tmp_path: Path) -> None:
    bank, judge = example_bank(tmp_path), open_checkpoint(taught, batch_size=4, precision="32-true")[0]
    (rates,) = re.findall(r"win rate of ([\d.]+) against .*, and of ([\d.]+) for", DOCS["data_formats.md"])
    shown = [float(number) for number in rates]
    for taste, on_page in zip(TASTES[::-1], shown, strict=True):
        outcomes, _ = score_bank(judge, bank, [taste], folder=tmp_path / "kept", progress=False)
        rate = Leaderboard(outcomes).win_rates()["model-two"]
        assert (rate > 0.7, on_page > 0.7) == (taste == TASTES[1],) * 2
        assert (rate < 0.3, on_page < 0.3) == (taste == TASTES[0],) * 2


def test_the_check_of_the_recorded_readings_gives_the_recorded_numbers(tmp_path: Path, monkeypatch: Any) -> None:
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


def test_the_speeds_on_the_page_are_those_recorded() -> None:
    page, folder = DOCS["speed.md"], ROOT / "bench/results"
    cpu, index = (json.loads((folder / f"{name}.json").read_text(encoding="utf-8")) for name in ("cpu", "index"))
    peers = [found.values() for job in cpu["ratios"].values() for found in job.values()]
    recorded = {"| " + " | ".join(f"{one['median']:.2f}" for one in found) + " |" for found in peers}
    shown = re.findall(r"^\|.* (\| \d\.\d\d \| \d\.\d\d \|)$", page, re.MULTILINE)
    assert len(shown) == 12 and set(shown) <= recorded
    taken = [f"{1000 * index[f'further_s_{shape}']:.0f} ms for" for shape in ("13x240", "30x804", "100x2000")]
    share = f"costs {index['further_share']:.4f} of building"
    for text in (*taken, share, index["commit"], cpu["commit"]):
        assert text in page.replace("\n", " "), text


PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md")))


def without_code(text: str) -> str:
    """A page without its code, in which ``#`` is no heading and brackets are no links."""
    return re.sub(r"^(```.*?^```|    [^\n]*)", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What links can name of a page: its headings, in lower case, without punctuation, with hyphens for blanks."""
    headings = re.findall(r"^#+ (.*)$", without_code(page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_between_the_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)]+)\)", without_code(page.read_text(encoding="utf-8"))):
            path, _, anchor = target.partition("#")
            other = page.parent / path if path else page
            assert other.exists(), f"{page.name} links to {target}"
            assert not anchor or anchor in anchors(other), f"{page.name} links to {target}"


def test_every_setting_and_option_in_the_docs_exists() -> None:
    known = {name for each in ENTRY_POINTS for name in setting_names(schema(each))}
    groups = set(group_names())
    for name, page in {"README.md": README, **DOCS}.items():
        text = re.sub(r"```python\n.*?```", "", page, flags=re.DOTALL)
        for setting in re.findall(r"\b((?:%s)\.\w+)=" % "|".join(groups), text):  # noqa: UP031
            assert setting in known, f"{name}: {setting}"
        for group, options in re.findall(r"(?<![\w.])(%s)=([\w,]+)(?![\w,/]|\.\w)" % "|".join(groups), text):  # noqa: UP031
            for option in options.split(","):
                assert option in option_names(group), f"{name}: {group}={option}"


def test_every_group_is_documented_with_all_its_options() -> None:
    lines = DOCS["configuration.md"].splitlines()
    rows = {found[1]: line for line in lines if (found := re.match(r"\| `(\w+)` \|", line))}
    for group in set(group_names()) - {"bank", "experiment"}:
        for option in option_names(group):
            assert f"`{option}`" in rows[group], f"{group}: {option}"


def commands_of(page: str) -> list[tuple[str, list[str]]]:
    """Name and words of every command that a page shows; of a sweep, every job."""
    found = []
    for name, line in re.findall(r"^ {4}(?:\w+=\S+ |srun )*python (train|evaluate)\.py (.*)$", page, re.MULTILINE):
        words = [word for word in shlex.split(line) if word not in ("-m", "--cfg", "job")]
        sweep = "-m" in shlex.split(line)
        choices = [word.split(",") if sweep else [word] for word in words]
        named = [
            [one if i == 0 else f"{first[0].partition('=')[0]}={one}" for i, one in enumerate(first)]
            for first in choices
        ]
        found += [(name, list(job)) for job in itertools.product(*named)]
    return found


@pytest.mark.slow
def test_every_command_of_the_recipe_composes(command: Command, tmp_path: Path) -> None:
    page = DOCS["train_qwen3_4b.md"]
    found = commands_of(page)
    shown_in_a_log, further_jobs = 1, 15
    assert len(found) == len(re.findall(r"python (train|evaluate)\.py", page)) - shown_in_a_log + further_jobs
    (tmp_path / "pairs.jsonl").write_text(json.dumps({"prompt": "a", "chosen": "b", "rejected": "c"}) + "\n")
    shutil.copy(tmp_path / "pairs.jsonl", tmp_path / "other.jsonl")
    shown = {}
    for name, words in found:
        code, out, error = command(name, *words, "--cfg", "job")
        assert code == 0, f"{words}: {error}"
        shown[tuple(words)] = out
        if "hydra.run.dir=runs/mine" in words:  # which the commands after it resume and evaluate
            (tmp_path / "runs/mine").mkdir(parents=True, exist_ok=True)
            (tmp_path / "runs/mine/config.yaml").write_text(out, encoding="utf-8")
    resumed = yaml.safe_load(shown["resume=runs/mine",])
    assert (resumed["model"]["name"], resumed["trainer"]["strategy"]) == ("qwen3_4b", "fsdp")
    jobs = [yaml.safe_load(out) for words, out in shown.items() if any("noise=" in word for word in words)]
    assert len({(job["model"]["path"], job["loss"]["name"], job["noise"]["kind"]) for job in jobs}) == 16
    assert all(job["trainer"]["devices"] == 8 and job["optimizer"]["lr"] == 1e-5 for job in jobs)


@pytest.mark.slow
def test_the_guide_leads_from_a_table_to_a_model(command: Command, tmp_path: Path, monkeypatch: Any) -> None:
    """ "Bring your own votes", followed to the letter on fewer rows and steps."""
    monkeypatch.setenv("CRM_DATA_ROOT", str(tmp_path))
    guide = DOCS["bring_your_own_votes.md"]
    script = tmp_path / "practice.py"
    script.write_text(example(guide, "example: practice votes").replace("train=1500", "train=400"))
    runpy.run_path(str(script))
    more = {
        "train": ("schedule.max_steps=2", "model.hidden_size=32", "model.layers=1", "trainer.progress=false"),
        "evaluate": ("suite=[D+,D-]", "progress=false"),
    }
    for line in re.findall(r"<!-- command -->\n    python (\w+)\.py (.*)", guide):
        name, words = line[0], shlex.split(line[1])
        code, shown, error = command(name, *words, *more.get(name, ()))
        assert code == 0, error
    counts = json.loads((tmp_path / "datasets/votes/local/counts.json").read_text())
    assert counts["read"]["preferences"] == counts["read"]["read"] == 400
    assert (tmp_path / "runs/votes/model/config.json").is_file() and "D+" in shown
