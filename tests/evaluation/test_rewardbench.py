"""RewardBench's result file: from a file of rows to the shares of its subsets."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crm.config import compose
from crm.evaluation.predictions import read_predictions
from crm.evaluation.results import write_rewardbench
from crm.evaluation.run import run_evaluation
from crm.model.export import export_model
from crm.schema import Comparison, Message

ROWS: list[dict[str, Any]] = [
    {"id": 31, "subset": "hard", "chosen": "one two three", "rejected": "one"},
    {"id": 7, "subset": "easy", "chosen": "one", "rejected": "one two"},
    {"id": 8, "subset": "easy", "chosen": "one two", "rejected": "two one"},
    {"id": 9, "subset": "easy", "chosen": "one two", "rejected": "one"},
    {"id": 5, "subset": "hard", "chosen": "yes it is", "rejected": "no"},
]
"""For the longer response: right, wrong, a tie, right, right."""


def evaluate(run: Path, rows: list[dict[str, Any]], *words: str) -> Path:
    data = run / "bench.jsonl"
    lines = [json.dumps({"prompt": f"Question {number}?", **row}) for number, row in enumerate(rows)]
    data.write_text("\n".join(lines) + "\n")
    given = ["data=rewardbench", f"data.path='{data}'", "progress=false", f"predictions='{run}/kept'", *words]
    run_evaluation(compose("evaluate", given, run), show=False)
    return run


def read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text()))


def test_shares_of_every_subset(tmp_path: Path) -> None:
    evaluate(tmp_path, ROWS, "judge=length", "criteria=none")
    assert read(tmp_path / "rewardbench/eval-set.json") == {
        "model": "longer wins",
        "model_type": "Seq. Classifier",
        "chat_template": "none",
        "easy": pytest.approx(1.5 / 3),
        "hard": 1.0,
    }
    document = read(tmp_path / "results.json")
    metrics = {(row["suite"], row["metric"]): row for row in document["results"]}
    assert metrics["D+", "accuracy"]["value"] == pytest.approx(3.5 / 5)
    assert list(document["run"]["files"]) == ["D+"], "there is no loser's criterion, hence no D-"
    with pytest.raises(ValueError, match=r"no record has criteria.*; criteria=none gives every vote one general"):
        evaluate(tmp_path, ROWS, "judge=length")


def test_a_reward_model_has_its_name_and_template(make_model: Any, tokenizer: Any, tmp_path: Path) -> None:
    model = tmp_path / "model"
    export_model(make_model("scalar"), tokenizer, model, {"max_length": 2048, "seed": 1})
    words = ("judge=reward_model", f"judge.path='{model}'", "judge.criteria_in=none", "criteria=none")
    run = evaluate(tmp_path, ROWS, *words)
    found = read(run / "rewardbench/eval-set.json")
    assert found["model"] == str(model) and found["chat_template"] == "tokenizer"
    lines = read_predictions(read(run / "results.json")["run"]["files"]["D+"])
    easy = [line for line in lines if line.order == "ab" and line.comparison_id.split("|")[0][-1] in "789"]
    assert found["easy"] == sum((line.preference_logit > 0) == (line.label == "a") for line in easy) / 3
    assert found.keys() >= {"hard"} and len(easy) == 3


def test_what_has_no_verdict_or_no_subset_is_left_out(tmp_path: Path) -> None:
    """One comparison failed and one was too long: both are out of the shares."""
    run = evaluate(tmp_path, ROWS, "judge=length", "criteria=none")
    lines = [
        row
        for row in read_predictions(read(run / "results.json")["run"]["files"]["D+"])
        if "-7|" not in row.comparison_id
    ]
    lines = [replace(r, preference_logit=None, failure="x") if "-31|" in r.comparison_id else r for r in lines]
    names = sorted({row.comparison_id for row in lines} | {"rewardbench-7|original|none"})
    turns = ((Message("user", "?"),), (Message("assistant", "a"),), (Message("assistant", "b"),))
    rows = [Comparison(name, name.split("|")[0], ("x",), *turns, "a") for name in names]
    topics = [next(own["subset"] for own in ROWS if f"-{own['id']}|" in row.id) for row in rows]
    subsets = {row.preference_id: topic for row, topic in zip(rows, topics, strict=True)}
    write_rewardbench(tmp_path / "a", rows, lines, subsets, model="m", template=False)
    found = read(tmp_path / "a/rewardbench/eval-set.json")
    assert (found["easy"], found["hard"]) == (0.75, 1.0)
    write_rewardbench(tmp_path / "b", rows, lines, dict.fromkeys(subsets), model="m", template=False)
    assert not (tmp_path / "b").exists()
