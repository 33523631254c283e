"""RewardBench's result files: from a file of rows to what a judge says of them, against the rows themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crm.config import compose
from crm.evaluation.rewardbench_export import export, main
from crm.evaluation.run import run_evaluation
from crm.io.files import replace_file
from crm.model.export import export_model

ROWS: list[dict[str, Any]] = [
    {"id": 31, "subset": "hard", "chosen": "one two three", "rejected": "one"},
    {"id": 7, "subset": "easy", "chosen": "one", "rejected": "one two"},
    {"id": 8, "subset": "easy", "chosen": "one two", "rejected": "two one"},
    {"id": 9, "subset": "easy", "chosen": "one two", "rejected": "one"},
    {"id": 5, "subset": "hard", "chosen": "yes it is", "rejected": "no"},
]
"""For the longer response: right, wrong, a tie, right, right."""


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    more = {"chosen_model": "x", "rejected_model": "y"}
    lines = [json.dumps({"prompt": f"Question {number}?", **more, **row}) for number, row in enumerate(rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write(tmp_path_factory.mktemp("data") / "bench.jsonl", ROWS)


def evaluate(run: Path, data: Path, *words: str, source: str = "rewardbench") -> Path:
    given = [f"data={source}", f"data.path='{data}'", "progress=false", f"predictions='{run}/kept'", *words]
    run_evaluation(compose("evaluate", given, run), show=False)
    return run


@pytest.fixture(scope="module")
def by_length(data: Path, tmp_path_factory) -> Path:
    return evaluate(tmp_path_factory.mktemp("length"), data, "judge=length", "criteria=none")


OTHERS = "the predictions are not of these rows; only evaluations of all of RewardBench"


def read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text()))


def test_data_without_criteria_are_evaluated_as_of_a_user_unknown(data: Path, by_length: Path, tmp_path: Path) -> None:
    document = read(by_length / "results.json")
    metrics = {(row["suite"], row["metric"]): row for row in document["results"]}
    assert metrics["D+", "accuracy"]["value"] == pytest.approx(3.5 / 5)
    assert list(document["run"]["files"]) == ["D+"], "there is no loser's criterion, hence no D-"
    with pytest.raises(
        ValueError, match=r"no record has criteria.*; criteria=none gives every vote one general criterion"
    ):
        evaluate(tmp_path, data, "judge=length")


def test_shares_of_every_subset(data: Path, by_length: Path, tmp_path: Path) -> None:
    grouped, _ = export(by_length, str(data), tmp_path, "longer").files
    assert read(grouped) == {
        "model": "longer",
        "model_type": "Seq. Classifier",
        "chat_template": "none",
        "easy": pytest.approx(1.5 / 3),
        "hard": 1.0,
    }


def test_scores_of_a_reward_model_row_by_row(data: Path, make_model, tokenizer, tmp_path: Path) -> None:
    model = tmp_path / "model"
    export_model(make_model("scalar"), tokenizer, model, {"max_length": 2048, "seed": 1})
    words = ("judge=reward_model", f"judge.path='{model}'", "judge.criteria_in=none", "criteria=none")
    run = evaluate(tmp_path / "run", data, *words)
    made = export(run, str(data), tmp_path / "out", "tiny")
    grouped, scored = (read(path) for path in made.files)
    assert made.files == (tmp_path / "out/eval-set/tiny.json", tmp_path / "out/eval-set-scores/tiny.json")
    assert scored["id"] == [31, 7, 8, 9, 5], "in the order of the set"
    assert scored["subset"] == [row["subset"] for row in ROWS]
    for number, row in enumerate(ROWS):
        for side in ("chosen", "rejected"):
            question = {"role": "user", "content": f"Question {number}?"}
            assert scored[f"text_{side}"][number] == [question, {"role": "assistant", "content": row[side]}]
    gaps = [a - b for a, b in zip(scored["scores_chosen"], scored["scores_rejected"], strict=True)]
    assert scored["results"] == [float(gap > 0) for gap in gaps]
    assert len(set(scored["scores_chosen"])) > 2
    # The same numbers, read off the predictions by hand.
    lines = Path(read(run / "results.json")["run"]["files"]["D+"]).read_text().splitlines()
    rows = {line["comparison_id"].split("|")[0]: line for line in map(json.loads, lines)}
    for name, score in zip(scored["id"], scored["scores_chosen"], strict=True):
        line = rows[f"rewardbench-{name}"]
        assert score == pytest.approx(line[f"score_{line['label']}"])
    easy = [result for result, row in zip(scored["results"], ROWS, strict=True) if row["subset"] == "easy"]
    assert grouped["easy"] == pytest.approx(sum(easy) / 3)
    assert (scored["model_type"], scored["chat_template"]) == ("Seq. Classifier", "tokenizer")


def test_rows_without_a_reading_are_counted(data: Path, by_length: Path, tmp_path: Path) -> None:
    """One comparison failed and one was too long: both are out of the shares."""
    document = read(by_length / "results.json")
    lines = [json.loads(line) for line in Path(document["run"]["files"]["D+"]).read_text().splitlines()]
    kept = [line for line in lines if "bench-7|" not in line["comparison_id"]]
    for line in kept:
        if "bench-31|" in line["comparison_id"] and line["order"] == "ba":
            line |= {"preference_logit": None, "failure": "no_verdict"}
    file = tmp_path / "predictions.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in kept))
    document["run"]["files"] = {"D+": str(file)}
    replace_file(tmp_path / "results.json", json.dumps(document))
    made = export(tmp_path, str(data), tmp_path / "out", "m")
    assert (made.rows, made.failed, made.unread) == (3, 1, 1)
    grouped = read(made.files[0])
    assert (grouped["easy"], grouped["hard"]) == (pytest.approx(1.5 / 2), 1.0)


def refusal(capsys, *words: object) -> str:
    assert main([str(word) for word in words]) == 2
    said = str(capsys.readouterr().err).strip()
    assert "\n" not in said
    return said


def test_other_data_are_an_error(data: Path, by_length: Path, tmp_path: Path, capsys) -> None:
    ask = ("--model", "m", "--out", tmp_path / "out")
    other = write(tmp_path / "other.jsonl", [{**row, "prompt": "Else?"} for row in ROWS])
    assert OTHERS in refusal(capsys, by_length, "--data", other, *ask)
    second = {"id": "1", "subset": "Focus", "chosen": ["a"], "rejected": ["b", "c", "d"], "num_correct": 1}
    two = write(tmp_path / "two.jsonl", [second])
    assert "is RewardBench 2" in refusal(capsys, by_length, "--data", two, *ask)
    nameless = write(tmp_path / "nameless.jsonl", [{**ROWS[0], "subset": None}])
    assert "rewardbench-31 has no subset" in refusal(capsys, by_length, "--data", nameless, *ask)
    assert "results.json: not there" in refusal(capsys, tmp_path, "--data", data, *ask)
    assert "expected a name such as owner/name" in refusal(
        capsys, by_length, "--data", data, "--model", "../m", "--out", tmp_path
    )
