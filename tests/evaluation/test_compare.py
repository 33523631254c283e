"""Paired comparisons against statsmodels, all sign patterns and symmetries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.contingency_tables import mcnemar

from crm.evaluation.compare import compare, paired_frame
from crm.evaluation.compare import sign_flip_p as flip
from crm.evaluation.predictions import Sample

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
    found = compare(judge(one), judge(two), 0)
    assert (found["first_better"], found["second_better"], found["n"]) == (first, second, 18 + sum(counts))
    assert found["clustered_p"] == pytest.approx(expected, rel=1e-9)


def test_a_predicted_tie_is_half_a_difference() -> None:
    found = compare(judge([0.0, 1.0, 1.0, 0.0]), judge([-1.0, 0.0, 1.0, 0.0]), 0)
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
    found = compare([*one[:4], replace(one[4], comparison_id="other")], two, 0)
    assert (found["n"], found["difference"], found["clustered_p"], found["left_out"]) == (2, 0.0, 1.0, 4)
    with pytest.raises(ValueError, match="none with a label and a verdict of both"):
        compare(one, [replace(row, comparison_id=row.comparison_id + "x") for row in two], 0)
    for other in (replace(two[0], label=0), replace(two[0], cluster="p")):
        with pytest.raises(ValueError, match="c00000 has another label or prompt for each judge"):
            compare(one, [other, *two[1:]], 0)


def test_exchanging_the_judges_turns_the_sign_and_the_order_of_rows_says_nothing() -> None:
    draws, keys = np.random.default_rng(5).normal(0.2, 1, (2, 90)), [index // 3 for index in range(90)]
    one, two = (judge(row.tolist(), keys) for row in draws)
    forth, back, mixed = compare(one, two, 1), compare(two, one, 1), compare(one[::-1], two, 1)
    assert mixed == forth
    assert (back["difference"], back["clustered_p"]) == (-forth["difference"], forth["clustered_p"])
    assert (back["first_better"], back["second_better"]) == (forth["second_better"], forth["first_better"])
    assert [back["low"], back["high"]] == pytest.approx([-forth["high"], -forth["low"]])
    assert compare(one, two, 2)["low"] != forth["low"]
    single = compare(judge([1.0, -1.0], "pp"), judge([-1.0, -1.0], "pp"), 0)
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
    table = paired_frame(judges, 0).set_index(["suite", "first", "second"])
    assert list(table.index) == [(suite, *pair) for suite in ("D+", "T+") for pair in ("xy", "xz", "yz")]
    verdicts = table["verdict"].tolist()
    assert verdicts[:4] == ["x is better", "not distinguishable", "z is better", "x is better"]
    assert all(verdict.startswith("not compared") and "different data" in verdict for verdict in verdicts[4:])
    row = table.loc[("D+", "x", "y")]
    assert row["clustered_p"] == pytest.approx(2**-6) and row["holm_p"] == pytest.approx(3 * 2**-6)
