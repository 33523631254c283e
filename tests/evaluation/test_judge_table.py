"""Tables over judges whose accuracies, verdicts and costs are known; a sweep's folder; runs that cannot be read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from crm.evaluation.compare import paired_frame
from crm.evaluation.judge_table import (
    EvaluatedJudge,
    judge_frame,
    read_evaluation,
    unique_names,
    write_judge_tables,
    write_tables_of_judges,
)
from crm.evaluation.predictions import read_predictions
from crm.evaluation.results import summarise, write_results
from crm.schema import Prediction, to_json
from crm.training.sweeps import SweepJob


def run(root: Path, name: str, suites: Mapping[str, Sequence[float | None]], shift: int = 0, **facts: Any) -> Path:
    """A folder as of evaluate.py: each suite's logits of comparisons labelled A, two a prompt; None is a failure."""
    files = {}
    for suite, logits in suites.items():
        files[suite] = str(root / f"kept/{name}/{suite}.jsonl")
        Path(files[suite]).parent.mkdir(parents=True, exist_ok=True)
        rows = [
            Prediction(
                *(f"c{number}", order, logit, "a", f"p{number // 2}", suite, name),
                failure="refused" if logit is None else None,
                tokens=facts.get("tokens"),
            )
            for number, logit in enumerate(logits, start=shift)
            for order in ("ab", "ba")
        ]
        Path(files[suite]).write_text("".join(to_json(row) + "\n" for row in rows))
    results = summarise([row for file in files.values() for row in read_predictions(file)], commit="abc")
    write_results(root / name, results, {"judge": facts.get("judge", name), "files": files})
    return root / name


@pytest.fixture
def three(tmp_path: Path) -> list[EvaluatedJudge]:
    """On D+ the second is near the first, the third far below it; on T+ there are two, one failing a quarter."""
    good, near, poor = [1.0] * 38 + [-1.0] * 2, [1.0] * 36 + [-1.0] * 4, [-1.0] * 40
    folders = [
        run(tmp_path, "good", {"D+": good, "T+": [1.0] * 40}, tokens=30),
        run(tmp_path, "near", {"D+": near, "T+": [None] * 10 + [-1.0] * 30}),
        run(tmp_path, "poor", {"D+": poor}),
    ]
    return [read_evaluation(folder) for folder in folders]


def tables(rows: Sequence[EvaluatedJudge], **missing: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    paired = paired_frame({judge.name: judge.samples for judge in rows}, 0)
    frame = judge_frame(rows, paired, missing)
    return frame.set_index(["suite", "judge"]), paired.set_index(["suite", "first", "second"])


def test_a_row_for_every_suite_and_judge(three: list[EvaluatedJudge]) -> None:
    table, _ = tables(three, llm="failed: no endpoint")
    assert table.loc["D+", "mark"].to_dict() == {"good": "best", "near": "≈", "poor": ""}
    assert table.loc["T+", "mark"].to_dict() == {"good": "best", "near": ""}
    assert table.loc["D+", "n"].tolist() == [40] * 3 and table.loc[("T+", "near"), "n"] == 30
    good, near = table.loc[("D+", "good")], table.loc[("T+", "near")]
    assert (good["accuracy"], good["tokens"]) == (0.95, 60)
    assert near["failure_rate"] == 0.25 and good["low"] < 0.95 < good["high"]
    assert table.iloc[-1].name[1] == "llm" and table["reason"].iloc[-1] == "failed: no endpoint"  # type: ignore[index]


def test_a_row_for_every_pair_and_suite(three: list[EvaluatedJudge], tmp_path: Path) -> None:
    _, table = tables(three)
    assert len(table) == 4
    row = table.loc[("T+", "good", "near")]
    assert (row["difference"], row["n"], row["left_out"]) == (1.0, 30, 10)
    assert row["holm_p"] >= row["clustered_p"] == pytest.approx(2.0**-14)
    assert row["verdict"] == "good is better"
    assert table.loc[("D+", "good", "near"), "verdict"] == "not distinguishable"
    assert table.loc[("D+", "near", "poor"), "verdict"] == "near is better"
    write_judge_tables(tmp_path, three, {"llm": "failed: 5 % & more"})
    text = (tmp_path / "paired.md").read_text()
    assert "<0.001" in text and "commit abc" in text
    frame = pd.read_csv(tmp_path / "judges.csv", skiprows=1)
    assert len(frame) == 6 and frame["reason"].dropna().tolist() == ["failed: 5 % & more"]
    assert r"5 \% \& more" in (tmp_path / "judges.tex").read_text()
    write_judge_tables(tmp_path / "one", three[:1], {})
    assert not list(tmp_path.glob("one/paired.*")), "one judge has nobody to be compared with"


@pytest.mark.filterwarnings("error")
def test_different_comparisons_are_compared_where_they_meet_or_not_at_all(tmp_path: Path) -> None:
    folders = [
        run(tmp_path, "x", {"D+": [1.0] * 20}),
        run(tmp_path, "y", {"D+": [-1.0] * 20}, shift=14),
        run(tmp_path, "z", {"D+": [-1.0] * 20}, shift=100),
    ]
    marks, table = tables([read_evaluation(folder) for folder in folders])
    assert table.loc[("D+", "x", "y")][["n", "left_out"]].tolist() == [6, 28]
    assert table.loc[("D+", "x", "z"), "verdict"].startswith("not compared: comparisons: none with a label and a")
    assert marks["mark"].tolist() == ["best", "≈", "?"]
    twice, _ = tables([read_evaluation(run(tmp_path, name, {"D+": [1.0] * 9})) for name in ("one", "two")])
    assert twice["mark"].tolist() == ["best", "best"]


def test_the_tables_of_a_sweep(tmp_path: Path) -> None:
    """A job whose results cannot be read is a failed one."""
    for name, judge, right in (("0", "coin", -1.0), ("1", "oracle", 1.0), ("2", "length", 1.0)):
        folder = run(tmp_path, name, {"D+": [right] * 30}, judge=judge)
        (folder / ".hydra").mkdir()
        (folder / ".hydra/overrides.yaml").write_text(f"[judge={judge}]")
    (tmp_path / "2/results.json").write_text("{")
    jobs = write_tables_of_judges(tmp_path)
    assert [job.status for job in jobs] == ["finished", "finished", "failed"]
    table = pd.read_csv(tmp_path / "judges.csv", skiprows=1).set_index("judge")
    assert table["mark"]["oracle"] == "best" and "not results of evaluate.py" in table["reason"]["judge=length"]
    assert "oracle is better" in (tmp_path / "paired.md").read_text()
    with pytest.raises(ValueError, match="nowhere: no such folder; give a sweep's"):
        write_tables_of_judges(tmp_path / "nowhere")


def job(name: str, **overrides: str) -> SweepJob:
    return SweepJob(name, overrides, "finished")


def test_judges_of_one_name_differ_by_their_settings() -> None:
    jobs = [
        job("0", judge="length", seed="1"),
        job("1", judge="crm", checkpoint="a", seed="1"),
        job("2", judge="crm", checkpoint="b", seed="1"),
        job("3", judge="llm", seed="1"),
    ]
    names = unique_names(jobs, {"0": "longer wins", "1": "scalar", "2": "scalar"})
    assert list(names.values()) == ["longer wins", "scalar (checkpoint=a)", "scalar (checkpoint=b)", "judge=llm"]
    same = [job("a/0", judge="coin"), job("b/0", judge="coin")]
    assert list(unique_names(same, {"a/0": "coin", "b/0": "coin"}).values()) == ["coin (job a/0)", "coin (job b/0)"]


def test_a_run_of_another_version_is_named(tmp_path: Path) -> None:
    path = run(tmp_path, "x", {"D+": [1.0]}) / "results.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": None}))
    with pytest.raises(ValueError, match="schema_version: None, this version reads 2"):
        read_evaluation(tmp_path / "x")
