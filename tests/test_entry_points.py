"""evaluate.py and leaderboard.py as a user meets them: a trained tiny model, real suites, and every likely mistake."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pandas as pd
import pytest

from crm.config import compose
from crm.evaluation.run import run_evaluation
from crm.leaderboard.ranking import Leaderboard
from crm.leaderboard.run import open_bank, run_leaderboard
from crm.schema import Result
from crm.training.train import run_training
from tests.conftest import TINY_MODEL

DATA = ("data.train=24", "data.validation=8", "data.suite=6")
TINY = (
    *TINY_MODEL,
    "schedule.comparisons_per_step=8",
    *("trainer.progress=false", "schedule.max_steps=1", "loss=ranking"),
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_training(compose("train", [*TINY, *DATA], tmp_path_factory.mktemp("run"))).checkpoint


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
    for name in ("results.json", "results.csv", "suites.md", "suites.csv", "suites.png"):
        assert (tmp_path / name).is_file(), name
    assert "D+" in capsys.readouterr().out


def test_predictions_are_reused_and_counted(
    model: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = "suite.names=[D+,D-_replace]"
    first = evaluate(model, tmp_path, wanted)
    assert {row.suite for row in first} >= {"D+", "D-_replace"}
    monkeypatch.setattr("crm.model.reward_model.RewardModel.forward", lambda *_: pytest.fail("asked the model again"))
    with caplog.at_level(logging.INFO):
        assert evaluate(model, tmp_path, wanted) == first
    assert "made 0" in caplog.text


def test_a_wrong_suite_is_named_before_the_model_is_loaded(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crm.evaluation.run.open_judge", lambda *_, **__: pytest.fail("loaded the model first"))
    with pytest.raises(ValueError, match=r"suite.*did you mean 'D-_replace'"):
        evaluate(model, tmp_path, "suite.names=[D+,D-_replaec]")


def test_a_leaderboard_for_a_user(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topic = open_bank(compose("leaderboard", ["checkpoint=x"], tmp_path).bank).topics[0]
    words = """criteria=["be brief, please","say \\"why\\""]"""
    board = rank(model, tmp_path, words, f"topics=['{topic}']")
    facts = json.loads((tmp_path / "criteria.json").read_text())
    assert facts["criteria"] == ["be brief, please", 'say "why"']
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
