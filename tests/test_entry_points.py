"""evaluate.py and leaderboard.py as a user meets them: a model, its own data or typed ones, likely mistakes."""

import json
import logging
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from crm.config import compose
from crm.data.config import DataConfig
from crm.evaluation.run import run_evaluation
from crm.leaderboard.ranking import Leaderboard
from crm.leaderboard.run import open_bank, run_leaderboard
from crm.model.export import export_model
from crm.schema import Result
from tests.made_files import write_rows

Trained = Any
ROWS = [
    {"prompt": f"{word} {word} or not?", "chosen": f"Yes, {word}.", "rejected": f"No, because {word} is {word}."}
    for word in ("rain", "snow", "hail", "wind", "fog", "heat", "frost", "dust", "storm", "cloud")
]
TYPED = {"train": 7, "test_fraction": 0.4, "seed": 5, "strict": False, "suite": 3}


@pytest.fixture
def trained(make_model: Any, tokenizer: Any, tmp_path: Path) -> Trained:
    """A function that makes a run folder, as if trained on the data of its settings."""

    def make(criteria: str = "own", **data: Any) -> Path:
        record = {"criteria": criteria, "data": asdict(DataConfig(root="data")) | data}
        facts = {"max_length": 256, "seed": 3, "config": record}
        export_model(make_model("scalar"), tokenizer, tmp_path / "runs/mine/model", facts)
        return tmp_path / "runs/mine"

    return make


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "pairs.jsonl", ROWS)


def test_every_setting_of_the_data_comes_from_the_checkpoint(trained: Trained, pairs: Path, tmp_path: Path) -> None:
    assert set(TYPED) < {each.name for each in fields(DataConfig)}
    stored = TYPED | {"name": "table", "path": str(pairs), "columns": {"prompt": "ask"}, "winners": {"x": "a"}}
    stored |= {"validation": 8, "max_words": 9, "validation_fraction": 0.2}
    stored |= {"split": "all", "near_duplicates": 0.9}
    run = trained("none", **stored)
    config = compose("evaluate", [f"checkpoint={run}"], tmp_path / "out")
    assert {name: getattr(config.data, name) for name in stored} == stored
    assert config.criteria == "none"
    apart = {name: asdict(DataConfig(root="data"))[name] for name in stored}
    assert not [name for name, value in apart.items() if value == stored[name]], "each differs from its default"
    others = {each.name for each in fields(DataConfig)} - set(stored)
    assert others == {"root", "sources"}, "a new setting: add it to conf/data/checkpoint.yaml, and here"


def test_what_is_typed_wins(trained: Trained, pairs: Path, tmp_path: Path) -> None:
    given = [f"checkpoint={trained('none', name='trl', path=str(pairs), **TYPED)}"]
    config = compose("evaluate", [*given, "data.suite=0", "data.strict=true", "criteria=own"], tmp_path / "out")
    assert (config.data.name, config.data.suite, config.data.strict, config.criteria) == ("trl", 0, True, "own")
    other = compose("evaluate", [*given, "data=simulation"], tmp_path / "out")
    assert other.data == compose("evaluate", ["judge=length", "data=simulation"], tmp_path / "out").data
    assert other.criteria == "none", "a model trained without criteria is read without, on any data"
    new = [*given, "data=file", f"data.path='{write_rows(tmp_path / 'test.jsonl', ROWS)}'"]
    for word, split in (("progress=false", "all"), ("data.split=auto", "auto"), (f"data.path='{pairs}'", "auto")):
        assert compose("evaluate", [*new, word], tmp_path / "out").data.split == split
    beside = compose("evaluate", [*given, "judge=length"], tmp_path / "out")
    assert beside.data.path == str(pairs), "a judge that is compared with the checkpoint reads the same data"


def test_the_table_names_the_file(trained: Trained, pairs: Path, tmp_path: Path, monkeypatch: Any, caplog: Any) -> None:
    data = {"name": "trl", "path": str(pairs), "validation_fraction": 0.0, "test_fraction": 0.4}
    given = [f"checkpoint={trained('none', **data)}", "progress=false"]
    monkeypatch.chdir(tmp_path)
    found = run_evaluation(compose("evaluate", given, tmp_path / "out"), show=False)
    n = found[0].n
    assert 0 < n < len(ROWS)
    what = "config scalar, blind on pairs.jsonl, held-out prompts (criteria=none)"
    assert (tmp_path / "out/suites.md").read_text().startswith(f"_seeds 3; {what}; commit ")
    assert "simulated" not in caplog.text
    with pytest.raises(ValueError, match=r"no votes are held out \(data.test_fraction=0\); name others"):
        run_evaluation(compose("evaluate", [*given, "data.test_fraction=0"], tmp_path / "c"))
    run_evaluation(compose("evaluate", ["judge=length", "data.train=20", "data.suite=4"], tmp_path / "b"), show=False)
    assert "length (longer wins) on simulation" in (tmp_path / "b/suites.md").read_text()
    assert "data=simulation: simulated votes, not yours" in caplog.text


def test_a_file_that_is_gone_is_named_with_the_way_out(trained: Trained, pairs: Path, tmp_path: Path) -> None:
    run = trained("none", name="trl", path=str(pairs))
    pairs.unlink()
    config = compose("evaluate", [f"checkpoint={run}"], tmp_path / "out")
    with pytest.raises(ValueError, match=r"was trained on this file, and it is gone.*data=<file") as refused:
        run_evaluation(config, show=False)
    assert str(refused.value).startswith(f"data.path={str(pairs)!r}: {run} was trained")


@pytest.mark.parametrize("command", ["leaderboard", "best_of_n"])
def test_llms_are_simulated_for_a_model_of_the_simulation_only(command: str, trained: Trained, tmp_path: Path) -> None:
    given = [f"checkpoint={trained(name='trl', path='/gone/pairs.jsonl')}"]
    with pytest.raises(ValueError, match=r"^bank: not given, .*mine was trained on /gone/pairs\.jsonl.*bank=alp"):
        compose(command, given, tmp_path / "out")
    assert compose(command, [*given, "bank=simulated"], tmp_path / "out").bank.name == "simulated"
    assert compose(command, [*given, "bank=alpacaeval"], tmp_path / "out").bank.name == "alpacaeval"
    assert compose(command, ["judge=length"], tmp_path / "out").bank.name == "simulated"
    assert compose(command, [f"checkpoint={trained(name='simulation')}"], tmp_path / "out").bank.name == "simulated"


def test_a_ranking_of_simulated_llms_says_so(trained: Trained, tmp_path: Path, caplog: Any, capsys: Any) -> None:
    words = [f"checkpoint={trained(name='trl', path='x')}", "bank=simulated", "bank.queries_per_topic=1"]
    run_leaderboard(compose("leaderboard", [*words, "progress=false"], tmp_path / "out"))
    line = "bank=simulated: 13 simulated LLMs, no real ones"
    for view in ("leaderboard", "bradley_terry"):
        assert line in (tmp_path / f"out/{view}.md").read_text()
    assert line in capsys.readouterr().out and f"{line}; rank real ones with bank=alpacaeval" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.INFO):
        words[0] = f"checkpoint={trained(name='simulation')}"
        run_leaderboard(compose("leaderboard", [*words, "progress=false"], tmp_path / "own"), show=False)
    assert "no real ones" not in (tmp_path / "own/leaderboard.md").read_text() + caplog.text


DATA = ("data.train=24", "data.validation=8", "data.suite=6")


@pytest.fixture(scope="module")
def model(make_model: Any, tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "model"
    record = {"criteria": "own", "data": asdict(DataConfig(root="data"))}
    export_model(make_model("scalar"), tokenizer, folder, {"max_length": 512, "seed": 42, "config": record})
    return folder


def evaluate(model: Path, run_dir: Path, *overrides: str) -> list[Result]:
    given = [f"checkpoint='{model}'", f"predictions='{run_dir / 'predictions'}'", "progress=false", *DATA, *overrides]
    return run_evaluation(compose("evaluate", given, run_dir))


def rank(model: Path, run_dir: Path, *overrides: str) -> Leaderboard:
    given = [f"checkpoint='{model}'", f"predictions='{run_dir / 'predictions'}'", "progress=false"]
    return run_leaderboard(compose("leaderboard", [*given, "bank.queries_per_topic=1", *overrides], run_dir))


@pytest.mark.slow
def test_the_standard_suites(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = evaluate(model, tmp_path, "suite=standard")
    accuracy = {row.suite: row for row in results if row.metric == "accuracy"}
    assert set(accuracy) >= {"D+", "D-", "T+", "T-", "C+", "C-"}
    assert all(0 <= row.value <= 1 and row.seeds == (42,) for row in accuracy.values())
    for name in ("results.json", "suites.md", "suites.csv", "suites.png"):
        assert (tmp_path / name).is_file(), name
    assert "D+" in capsys.readouterr().out


def test_predictions_are_reused_and_counted(model: Path, tmp_path: Path, caplog: Any, monkeypatch: Any) -> None:
    wanted = "suite=[D+,D-_replace]"
    first = evaluate(model, tmp_path, wanted)
    assert {row.suite for row in first} >= {"D+", "D-_replace"}
    monkeypatch.setattr("crm.model.reward_model.RewardModel.forward", lambda *_: pytest.fail("asked the model again"))
    with caplog.at_level(logging.INFO):
        assert evaluate(model, tmp_path, wanted) == first
    assert "made 0" in caplog.text


def test_a_wrong_suite_is_named_before_the_model_is_loaded(model: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("crm.evaluation.run.open_judge", lambda *_, **__: pytest.fail("loaded the model first"))
    with pytest.raises(ValueError, match=r"suite.*did you mean D-_replace\?"):
        evaluate(model, tmp_path, "suite=[D+,D-_replaec]")


def test_a_leaderboard_for_a_user(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topic = open_bank(compose("leaderboard", ["checkpoint=x"], tmp_path).bank).topics[0]
    words = """criteria=["be brief, please","say \\"why\\"",'it\\'s kind']"""
    board = rank(model, tmp_path, words, f"topics=['{topic}']")
    facts = json.loads((tmp_path / "criteria.json").read_text())
    assert facts["criteria"] == ["be brief, please", 'say "why"', "it's kind"]
    assert facts["topics"] == board.topics == [topic]
    table = pd.read_csv(tmp_path / "leaderboard.csv", skiprows=1)
    assert list(table.columns) == [*board.frame().columns, "flawed"]
    assert "be brief, please" in capsys.readouterr().out


def test_a_leaderboard_by_any_judge(tmp_path: Path) -> None:
    words = ["judge=length", f"predictions='{tmp_path / 'kept'}'", "bank.queries_per_topic=1", "progress=false"]
    board = run_leaderboard(compose("leaderboard", words, tmp_path / "run"))
    lengths = {row.model: row.mean_words for row in board.rows}
    assert board.rows[0].mean_words > lengths[board.baseline] > board.rows[-1].mean_words
    unknown = ["judge=oracle", "criteria=[something unknown]", *words[1:]]
    with pytest.raises(ValueError, match="bank=simulation-1: oracle gave no verdict on any comparison"):
        run_leaderboard(compose("leaderboard", unknown, tmp_path / "unknown"))
