"""Paired comparisons against statsmodels, all sign patterns and symmetries; the tables of a sweep's folder."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar

from crm.evaluation.compare import (
    EvaluatedJudge,
    compare,
    paired_frame,
    read_evaluation,
    write_judge_tables,
    write_sweep_tables,
)
from crm.evaluation.compare import sign_flip_p as flip
from crm.evaluation.predictions import Sample, read_predictions
from crm.evaluation.results import summarise, write_results
from crm.schema import Prediction, to_json

Judge = list[Sample]


def judge(logits: Sequence[float], clusters: Sequence[object] | None = None) -> Judge:
    """Every comparison is labelled A, so that a positive logit is right."""
    keys = range(len(logits)) if clusters is None else clusters
    return [
        Sample(f"c{index:05}", str(key), 1, logit, {"ab": logit})
        for index, (logit, key) in enumerate(zip(logits, keys, strict=True))
    ]


@pytest.mark.parametrize("counts", [(3, 9), (0, 6), (5, 5), (40, 21), (0, 0)])
def test_with_one_comparison_a_prompt_it_is_mcnemars_test(counts: tuple[int, int]) -> None:
    first, second = counts
    expected = mcnemar([[7, first], [second, 11]], exact=True).pvalue if sum(counts) else 1.0
    one = [1.0] * 7 + [1.0] * first + [-1.0] * second + [-1.0] * 11
    two = [1.0] * 7 + [-1.0] * first + [1.0] * second + [-1.0] * 11
    found = compare(judge(one), judge(two))
    assert (found["first_better"], found["second_better"], found["n"]) == (first, second, 18 + sum(counts))
    assert found["clustered_p"] == pytest.approx(expected, rel=1e-9)


def test_a_predicted_tie_is_half_a_difference() -> None:
    found = compare(judge([0.0, 1.0, 1.0, 0.0]), judge([-1.0, 0.0, 1.0, 0.0]))
    assert found["difference"] == pytest.approx((0.5 + 0.5) / 4)
    assert (found["first_better"], found["second_better"]) == (2, 0)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.lists(st.integers(-7, 7), min_size=1, max_size=9))
def test_the_sign_flip_test_counts_all_patterns(doubled: list[int]) -> None:
    sums = np.array(doubled) / 2
    totals = [abs(np.dot(signs, sums)) for signs in product((-1, 1), repeat=len(sums))]
    assert flip(sums) == pytest.approx(np.mean(np.array(totals) >= abs(sums.sum()) - 1e-9), rel=1e-9)


def test_only_common_comparisons_with_two_verdicts_count() -> None:
    one, two = judge([1.0, 1.0, 1.0, -1.0, 1.0]), judge([1.0, -1.0, -1.0, -1.0, -1.0])
    one[1] = replace(one[1], logit=math.nan, failures=("refused",))
    one[2], two[2] = replace(one[2], label=None), replace(two[2], label=None)
    found = compare([*one[:4], replace(one[4], comparison_id="other")], two)
    assert (found["n"], found["difference"], found["clustered_p"], found["left_out"]) == (2, 0.0, 1.0, 4)
    with pytest.raises(ValueError, match="none with a label and a verdict of both"):
        compare(one, [replace(row, comparison_id=row.comparison_id + "x") for row in two])
    for other in (replace(two[0], label=0), replace(two[0], cluster="p")):
        with pytest.raises(ValueError, match="c00000 has another label or prompt for each judge"):
            compare(one, [other, *two[1:]])


def test_exchanging_the_judges_turns_the_sign_and_the_order_of_rows_says_nothing() -> None:
    draws, keys = np.random.default_rng(5).normal(0.2, 1, (2, 90)), [index // 3 for index in range(90)]
    one, two = (judge(row.tolist(), keys) for row in draws)
    forth, back, mixed = compare(one, two), compare(two, one), compare(one[::-1], two)
    assert mixed == pytest.approx(forth)
    assert (back["difference"], back["clustered_p"]) == (-forth["difference"], forth["clustered_p"])
    assert (back["first_better"], back["second_better"]) == (forth["second_better"], forth["first_better"])
    assert [back["low"], back["high"]] == pytest.approx([-forth["high"], -forth["low"]])
    single = compare(judge([1.0, -1.0], "pp"), judge([-1.0, -1.0], "pp"))
    assert math.isnan(single["low"])
    assert single["clustered_p"] == 1.0


def test_holm_is_over_all_pairs_and_suites_that_could_be_compared() -> None:
    right, wrong = [1.0] * 40, [-1.0] * 40
    slightly = [-1.0] * 7 + [1.0] * 33  # p is 2 / 2^7 against right
    judges = {
        "x": {"D+": judge(right), "T+": judge(right)},
        "y": {"D+": judge(slightly), "T+": judge(wrong)},
        "z": {"D+": judge(right), "T+": judge(right, ["p"] * 40), "C+": judge(right)},
    }
    table = paired_frame(judges).set_index(["suite", "first", "second"])
    assert list(table.index) == [(suite, *pair) for suite in ("D+", "T+") for pair in ("xy", "xz", "yz")]
    verdicts = table["verdict"].tolist()
    assert verdicts[:4] == ["x is better", "not distinguishable", "z is better", "x is better"]
    assert all(verdict.startswith("not compared") and "different data" in verdict for verdict in verdicts[4:])
    row = table.loc[("D+", "x", "y")]
    assert row["clustered_p"] == pytest.approx(2**-6) and row["holm_p"] == pytest.approx(3 * 2**-6)


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


def test_a_row_for_every_suite_judge_and_pair(three: list[EvaluatedJudge], tmp_path: Path) -> None:
    write_judge_tables(tmp_path, three, {"llm": "failed: 5 % & more"})
    judges = pd.read_csv(tmp_path / "judges.csv", skiprows=1)
    assert len(judges) == 6 and judges["reason"].dropna().tolist() == ["failed: 5 % & more"]
    judges = judges.set_index(["suite", "judge"])
    assert judges.loc["D+", "n"].tolist() == [40] * 3 and judges.loc[("T+", "near"), "n"] == 30
    good, near = judges.loc[("D+", "good")], judges.loc[("T+", "near")]
    assert (good["accuracy"], good["tokens"]) == (0.95, 60)
    assert near["failure_rate"] == 0.25 and good["low"] < 0.95 < good["high"]
    paired = pd.read_csv(tmp_path / "paired.csv", skiprows=1).set_index(["suite", "first", "second"])
    assert len(paired) == 4
    row = paired.loc[("T+", "good", "near")]
    assert (row["difference"], row["n"], row["left_out"]) == (1.0, 30, 10)
    assert row["holm_p"] >= row["clustered_p"] == pytest.approx(2.0**-14)
    assert row["verdict"] == "good is better"
    assert paired.loc[("D+", "good", "near"), "verdict"] == "not distinguishable"
    assert paired.loc[("D+", "near", "poor"), "verdict"] == "near is better"
    text = (tmp_path / "paired.md").read_text()
    assert "<0.001" in text and "commit abc" in text
    write_judge_tables(tmp_path / "one", three[:1], {})
    assert not list(tmp_path.glob("one/paired.*")), "one judge has nobody to be compared with"


def test_the_tables_of_a_sweep(tmp_path: Path) -> None:
    """A job whose results cannot be read is a failed one."""
    for name, judge, right in (("0", "coin", -1.0), ("1", "oracle", 1.0), ("2", "length", 1.0)):
        folder = run(tmp_path, name, {"D+": [right] * 30}, judge=judge)
        (folder / ".hydra").mkdir()
        (folder / ".hydra/overrides.yaml").write_text(f"[judge={judge}]")
    (tmp_path / "2/results.json").write_text("{")
    jobs = write_sweep_tables(tmp_path)
    assert [job.status for job in jobs] == ["finished", "finished", "failed"]
    table = pd.read_csv(tmp_path / "judges.csv", skiprows=1).set_index("judge")
    assert table["accuracy"]["oracle"] == 1.0 and "not results of evaluate.py" in table["reason"]["judge=length"]
    assert "oracle is better" in (tmp_path / "paired.md").read_text()
    with pytest.raises(ValueError, match="nowhere: no job of a sweep in it"):
        write_sweep_tables(tmp_path / "nowhere")
