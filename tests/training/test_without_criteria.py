"""Votes without criteria through evaluate.py and train.py, and what a run says of a user's profile."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from crm.config import compose
from crm.data.comparisons import make_comparisons
from crm.evaluation.predictions import read_predictions
from crm.evaluation.run import run_evaluation
from crm.schema import GENERIC_CRITERION, Comparison, Result
from crm.training.train import run_training

WORDS = ("oak", "bread", "yarn", "paint", "moon", "river", "chess", "tea", "violin", "snow")


def vote(index: int, **changes: Any) -> dict[str, Any]:
    def turn(role: str, text: str) -> list[dict[str, str]]:
        return [{"role": role, "content": text}]

    winner = ("a", "b", "tie")[index % 3]
    long, short = turn("assistant", "a long answer"), turn("assistant", "short")
    return {
        "id": f"v{index}",
        "prompt": turn("user", f"{WORDS[index % 10]} {index}"),
        "response_a": long if winner == "a" else short,
        "response_b": long if winner == "b" else turn("assistant", "brief") if winner == "tie" else short,
        "winner": winner,
        "topic": f"topic {index % 2}",
    } | changes


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def evaluate(folder: Path, *given: str) -> list[Result]:
    overrides = ["judge=length", "progress=false", f"predictions='{folder / 'predictions'}'", *given]
    return run_evaluation(compose("evaluate", overrides, folder / "run"), show=False)


@pytest.fixture
def votes(tmp_path: Path) -> Path:
    return write(tmp_path / "votes.jsonl", [vote(index) for index in range(90)])


def test_every_vote_that_is_no_tie_is_evaluated(votes: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    own = [f"data.path='{votes}'", "data=records", "data.test_fraction=0.4"]
    with pytest.raises(ValueError, match=r"no record has criteria.*criteria=none"):
        evaluate(tmp_path, *own)
    with caplog.at_level(logging.INFO):
        results = evaluate(tmp_path, *own, "criteria=none")
    accuracy = {row.suite: row for row in results if row.metric == "accuracy"}
    assert set(accuracy) == {"D+"}
    assert accuracy["D+"].value == 1
    assert "suite D- is empty" in caplog.text and "given_generic_criterion 90" in caplog.text
    document = json.loads((tmp_path / "run" / "results.json").read_text())
    assert document["run"]["criteria"] == "none"
    held = document["run"]["rows"]["suite_D"]
    rows = read_predictions(document["run"]["files"]["D+"])
    assert accuracy["D+"].n == len(rows) // 2 < held


@pytest.mark.slow
def test_training_without_criteria_shows_the_generic_one(
    votes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Comparison] = []

    def keep(*args: Any, **given: Any) -> Any:
        rows, counts = make_comparisons(*args, **given)
        made.extend(rows)
        return rows, counts

    monkeypatch.setattr("crm.training.datamodule.make_comparisons", keep)
    tiny = ["model.hidden_size=16", "model.layers=2", "model.heads=2", "model.vocab_size=400", "loss=ranking"]
    short = ["schedule.comparisons_per_step=8", "trainer.progress=false", "schedule.max_steps=1"]
    data = ["data=records", f"data.path='{votes}'", "criteria=none", "direction=random"]
    outcome = run_training(compose("train", [*tiny, *short, *data], tmp_path / "run"))
    assert outcome.steps == 1
    assert {(row.criteria, row.direction) for row in made} == {((GENERIC_CRITERION,), "original")}
    counts = json.loads((tmp_path / "run" / "summary.json").read_text())["counts"]
    assert counts["made"] == counts["read"] - counts["ties_dropped"] > 40
    assert counts["without_criteria"] == 0


def test_results_say_what_was_shown_of_a_user(tmp_path: Path) -> None:
    row = {"question": "Which oil?", "chosen": "linseed oil", "rejected": "paint", "category": "diy"}
    row |= {"profile": [{"text": "Oak?"}], "rubric_aspects": [{"aspect": "Food safe"}]}
    path = write(tmp_path / "rows.jsonl", [{"id": index, **row, "question": f"Oil {index}?"} for index in range(3)])
    data = ["data=personalized_rewardbench", f"data.path='{path}'"]
    for given, title in (
        ("data.profile=first", "(profile: first 10 posts)"),
        ("criteria=none", "(profile: none) (criteria=none)"),
    ):
        results = evaluate(tmp_path, *data, given)
        assert results[0].config == f"length (longer wins) on personalized_rewardbench {title}"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("data=llmbar data.profile=bm25", "data.profile='bm25': expected none, but for data=personalized_rewardbench"),
        ("data.profile=all", "data.profile='all': expected one of none, first, bm25"),
    ],
)
def test_settings_of_a_profile_that_cannot_be(given: str, message: str, tmp_path: Path) -> None:
    data = [] if "data=" in given.split()[0] else ["data=personalized_rewardbench", "data.path=x"]
    with pytest.raises(ValueError) as refused:
        compose("evaluate", ["judge=length", *data, *given.split()], tmp_path)
    assert str(refused.value).startswith(message)
