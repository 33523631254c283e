"""RewardBench's result files: from a file of rows to what a judge says of them, against the rows themselves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crm.config import compose
from crm.evaluation.predictions import read_predictions
from crm.evaluation.rewardbench import write_rewardbench
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


def test_scores_of_a_reward_model_row_by_row(make_model: Any, tokenizer: Any, tmp_path: Path) -> None:
    model = tmp_path / "model"
    export_model(make_model("scalar"), tokenizer, model, {"max_length": 2048, "seed": 1})
    words = ("judge=reward_model", f"judge.path='{model}'", "judge.criteria_in=none", "criteria=none")
    run = evaluate(tmp_path, ROWS, *words)
    grouped, scored = (read(run / f"rewardbench/{name}.json") for name in ("eval-set", "eval-set-scores"))
    assert scored["model"] == str(model) and scored["chat_template"] == "tokenizer"
    assert sorted(scored["id"]) == [5, 7, 8, 9, 31]
    lines = read_predictions(read(run / "results.json")["run"]["files"]["D+"])
    predictions = {line.comparison_id.split("|")[0]: line for line in lines}
    for place, name in enumerate(scored["id"]):
        number = next(number for number, row in enumerate(ROWS) if row["id"] == name)
        assert scored["subset"][place] == ROWS[number]["subset"]
        for side in ("chosen", "rejected"):
            question = {"role": "user", "content": f"Question {number}?"}
            assert scored[f"text_{side}"][place] == [question, {"role": "assistant", "content": ROWS[number][side]}]
        line = predictions[f"rewardbench-{name}"]
        assert scored["scores_chosen"][place] == pytest.approx(getattr(line, f"score_{line.label}"))
        assert scored["results"][place] == (scored["scores_chosen"][place] > scored["scores_rejected"][place])
    assert grouped["easy"] == pytest.approx(
        sum(r for r, s in zip(scored["results"], scored["subset"], strict=True) if s == "easy") / 3
    )


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
    topics = {row.id: next(own["subset"] for own in ROWS if f"-{own['id']}|" in row.id) for row in rows}
    made = write_rewardbench(tmp_path, rows, lines, topics, model="m", template=False)
    assert len(read(made[1])["id"]) == 3
    assert not write_rewardbench(tmp_path, rows, lines, dict.fromkeys(topics), model="m", template=False)
    second = {"id": "1", "subset": "Focus", "chosen": ["a", "a b"], "rejected": ["b", "c", "d"], "num_correct": 2}
    (tmp_path / "two").mkdir()
    assert not (evaluate(tmp_path / "two", [second], "judge=length", "criteria=none") / "rewardbench").exists()
