"""Tables over judges whose accuracies, verdicts and costs are known; runs that are broken on purpose."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from crm.evaluation.compare import compare_all
from crm.evaluation.judge_table import (
    EvaluatedJudge,
    judge_frame,
    paired_frame,
    read_evaluation,
    shown_pairs,
    write_judge_tables,
)
from crm.evaluation.predictions import read_predictions
from crm.evaluation.results import summarise, write_results
from crm.io.files import replace_file
from crm.schema import Prediction, to_json
from crm.sealed import sealed_text


def run(root: Path, name: str, suites: Mapping[str, Sequence[float | None]], shift: int = 0, **facts: Any) -> Path:
    """A folder as of evaluate.py: each suite's logits of comparisons labelled A, two a prompt; None is a failure."""
    files = {}
    for suite, logits in suites.items():
        files[suite] = f"kept/{name}/{suite}.jsonl"
        (root / files[suite]).parent.mkdir(parents=True, exist_ok=True)
        rows = [
            Prediction(
                *(f"c{number}", order, logit, "a", f"p{number // 2}", suite, name),
                failure="refused" if logit is None else None,
                tokens=facts.get("tokens"),
            )
            for number, logit in enumerate(logits, start=shift)
            for order in ("ab", "ba")
        ]
        (root / files[suite]).write_text("".join(to_json(row) + "\n" for row in rows))
    results = summarise([row for file in files.values() for row in read_predictions(root / file)], commit="abc")
    cost = {"seconds": 2.25, "readings_made": 7}
    write_results(root / name, results, {"judge": name, "files": files, "cost": cost})
    return root / name


def judges(root: Path, *folders: Path) -> list[EvaluatedJudge]:
    return [read_evaluation(folder, root) for folder in folders]


@pytest.fixture
def three(tmp_path: Path) -> list[EvaluatedJudge]:
    """On D+ the second is near the first, the third far below it; on T+ there are two, one failing a quarter."""
    good, near, poor = [1.0] * 38 + [-1.0] * 2, [1.0] * 36 + [-1.0] * 4, [-1.0] * 40
    return judges(
        tmp_path,
        run(tmp_path, "good", {"D+": good, "T+": [1.0] * 40}, tokens=30),
        run(tmp_path, "near", {"D+": near, "T+": [None] * 10 + [-1.0] * 30}),
        run(tmp_path, "poor", {"D+": poor}),
    )


def test_a_cell_gives_accuracy_n_failures_and_how_it_compares(three: list[EvaluatedJudge]) -> None:
    pairs = compare_all({judge.name: judge.samples for judge in three}, 0)
    table = judge_frame(three, pairs, {"llm": "failed: no endpoint"}).set_index("judge")
    assert list(table.columns) == ["D+", "T+", "tokens per comparison", "seconds", "no result because"]
    assert table.loc["good", "D+"].startswith("0.950 [")
    assert [cell.rpartition("], ")[2] for cell in table["D+"][:3]] == ["n 40, best", "n 40, ≈", "n 40"]
    assert [cell.rpartition("], ")[2] for cell in table["T+"][:2]] == ["n 40, best", "n 30, 25.0 % failed"]
    assert table["T+"]["poor"] == "–"
    assert table["tokens per comparison"].tolist() == ["60.0", "–", "–", "–"]
    assert table["seconds"]["good"] == "2.2 (7 readings)"
    assert table.loc["llm"].tolist() == ["–"] * 4 + ["failed: no endpoint"]


def test_a_row_for_every_pair_and_suite(three: list[EvaluatedJudge]) -> None:
    pairs = compare_all({judge.name: judge.samples for judge in three}, 0)
    table = paired_frame(pairs).set_index(["suite", "first", "second"])
    assert len(table) == 4
    row = table.loc[("T+", "good", "near")]
    assert (row["difference"], row["n"], row["left_out_without_a_verdict"]) == (1.0, 30, 10)
    assert row["holm_p"] >= row["clustered_p"] == pytest.approx(2.0**-14)
    assert row["mcnemar_p"] == pytest.approx(2.0**-29)
    assert row["verdict"] == "good is better"
    assert table.loc[("D+", "good", "near"), "verdict"] == "not distinguishable"
    assert table.loc[("D+", "near", "poor"), "verdict"] == "near is better"
    shown = shown_pairs(pairs).set_index(["suite", "first", "second"])
    said = shown.loc[("T+", "good", "near")]
    assert (said["left out"], said["McNemar p"], said["Holm p"]) == ("10 without a verdict", "<0.001", "<0.001")
    assert shown.loc[("D+", "good", "near"), "difference"].startswith("0.050 [")


@pytest.mark.filterwarnings("error")
def test_different_comparisons_are_compared_where_they_meet_or_not_at_all(tmp_path: Path) -> None:
    rows = judges(
        tmp_path,
        run(tmp_path, "x", {"D+": [1.0] * 20}),
        run(tmp_path, "y", {"D+": [-1.0] * 20}, shift=14),
        run(tmp_path, "z", {"D+": [-1.0] * 20}, shift=100),
    )
    pairs = compare_all({judge.name: judge.samples for judge in rows}, 0)
    assert not shown_pairs(pairs[1:]).isna().any(axis=None)
    table = shown_pairs(pairs).set_index(["first", "second"])
    assert table.loc[("x", "y")][["n", "left out"]].tolist() == ["6", "28 in one only"]
    assert table.loc[("x", "z"), "verdict"].startswith("not compared: comparisons: none with a label and a verdict")
    marks = [cell.rpartition("], ")[2] for cell in judge_frame(rows, pairs, {})["D+"]]
    assert marks == ["n 20, best", "n 20, ≈", "n 20, ?"]


def test_two_can_be_the_best(tmp_path: Path) -> None:
    both = judges(tmp_path, *(run(tmp_path, name, {"D+": [1.0] * 19 + [-1.0]}) for name in ("one", "two")))
    table = judge_frame(both, compare_all({judge.name: judge.samples for judge in both}, seed=0), {})
    assert [cell.rpartition(", ")[2] for cell in table["D+"]] == ["best", "best"]


def test_the_files_and_what_programs_read(three: list[EvaluatedJudge], tmp_path: Path) -> None:
    write_judge_tables(tmp_path, three, {"llm": "failed: 5 % & more"}, seed=3)
    kinds = ("csv", "md", "tex")
    written = sorted(path.name for path in tmp_path.iterdir() if path.is_file())
    assert written == [f"{name}.{kind}" for name in ("judges", "paired") for kind in kinds]
    table = pd.read_csv(tmp_path / "judges.csv", skiprows=1).set_index(["judge", "suite"])
    assert table.loc[("near", "T+"), ["accuracy", "n", "failure_rate"]].tolist() == [0, 30, 0.25]
    assert table["mark"][:5].fillna("").tolist() == ["best", "best", "≈", "", ""]
    assert table["reason"].dropna().tolist() == ["failed: 5 % & more"]
    first_lines = [(tmp_path / f"{name}.md").read_text().splitlines()[0] for name in ("judges", "paired")]
    assert all(part in first_lines[0] for part in ("≈: not distinguishable from it", "over 4 pairs", "commit abc"))
    assert all(part in first_lines[1] for part in ("adjusted over 4 rows", "bootstrap seed 3"))
    assert r"failed: 5 \% \& more" in (tmp_path / "judges.tex").read_text()
    assert r"$\approx$" in (tmp_path / "judges.tex").read_text()
    write_judge_tables(tmp_path, three[:1], {}, seed=3)
    assert not list(tmp_path.glob("paired.*"))
    text = (tmp_path / "judges.md").read_text()
    assert "no result because" not in text
    assert ", best" not in text


@pytest.mark.filterwarnings("error")
def test_where_every_job_failed_the_reasons_are_the_table(tmp_path: Path) -> None:
    write_judge_tables(tmp_path, [], {"judge=llm": "failed: no endpoint"}, seed=0)
    assert "| judge=llm | –" in (tmp_path / "judges.md").read_text()
    assert pd.read_csv(tmp_path / "judges.csv", skiprows=1)["reason"].tolist() == ["failed: no endpoint"]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"judge": None}, "run: judge: expected str, got None"),
        ({"files": {"D+": "gone.jsonl"}}, "files: D\\+: .*gone.jsonl is not there"),
        ({"cost": {"seconds": "1", "readings_made": 3}}, "run: seconds: expected float, got '1'"),
        ({"cost": {"seconds": True, "readings_made": 3}}, "run: seconds: expected float, got True"),
    ],
)
def test_a_run_that_cannot_be_read_is_named(tmp_path: Path, facts: dict[str, Any], said: str) -> None:
    folder = run(tmp_path, "x", {"D+": [1.0]})
    document = json.loads((folder / "results.json").read_text())
    replace_file(folder / "results.json", sealed_text(document | {"run": document["run"] | facts}))
    with pytest.raises(ValueError, match=said):
        read_evaluation(folder, tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[1]", "expected an object, got list"),
        ("{}", "schema_version: None"),
        ('{"schema_version": 2, "results": []}', "run: expected an obj"),
    ],
)
def test_a_damaged_file_of_results_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ValueError, match="not there; give a folder"):
        read_evaluation(tmp_path, tmp_path)
    (tmp_path / "results.json").write_text(text)
    with pytest.raises(ValueError, match=f"results.json: {said}"):
        read_evaluation(tmp_path, tmp_path)
