"""Summaries of small prediction files against numbers worked out by hand; files that are broken on purpose."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crm.evaluation.results import read_results, summarise, write_results
from crm.io.files import replace_file
from crm.schema import Prediction, Result


def reading(
    identifier: str, order: str, logit: float, label: str = "a", suite: str = "D+", cluster: str = ""
) -> Prediction:
    return Prediction(identifier, order, logit, label, cluster or identifier, suite, "f0")


def both(identifier: str, ab: float, ba: float, label: str = "a", suite: str = "D+") -> list[Prediction]:
    return [reading(identifier, "ab", ab, label, suite), reading(identifier, "ba", ba, label, suite)]


def values(predictions: Sequence[Prediction], suite: str = "D+") -> dict[str, float]:
    return {result.metric: result.value for result in summarise(predictions) if result.suite == suite}


def test_metrics_by_hand() -> None:
    rows = [
        *both("right", 3.0, 1.0),  # mean 2, correct
        *both("flips", 3.0, -1.0),  # mean 1, correct for a; labelled b below
        *both("zero", 2.0, -2.0, label="b"),  # exactly 0: one half
        *both("tie", 5.0, 5.0, label="tie"),
    ]
    rows = [replace(row, label="b") if row.comparison_id == "flips" else row for row in rows]
    got = values(rows)
    assert got["accuracy"] == pytest.approx((1 + 0 + 0.5) / 3)
    assert got["flip_rate"] == pytest.approx(2 / 4)
    assert got["margin"] == pytest.approx((2 - 1 + 0) / 3)
    assert got["log_loss"] == pytest.approx((math.log1p(math.exp(-2)) + math.log1p(math.e) + math.log(2)) / 3)
    assert (got["n_ties"], got["n_one_order"]) == (1, 0)

    def sigmoid(x: float) -> float:
        return 1 / (1 + math.exp(-x))

    # With A first the first response is A; with B first it is B, preferred with 1 - P(A).
    first = [sigmoid(3) + sigmoid(-1), sigmoid(3) + sigmoid(1), sigmoid(2) + sigmoid(2), sigmoid(5) + sigmoid(-5)]
    assert got["p_first"] == pytest.approx(sum(first) / 8)


def test_a_judge_that_ignores_the_criteria_sums_to_one() -> None:
    plus = [p for i in range(20) for p in both(str(i), float(i - 7), float(i - 7), "a", "D+")]
    minus = [replace(p, suite="D-", label="b") for p in plus]
    total = next(r for r in summarise([*plus, *minus]) if r.metric == "accuracy_sum")
    assert (total.suite, total.value, total.n) == ("D", pytest.approx(1.0), 40)
    assert total.low < 1 < total.high
    assert total.standard_error == pytest.approx(0, abs=1e-12)


def test_accuracy_sum_is_of_the_pairs_with_a_verdict_in_both_suites() -> None:
    """Of ten pairs that both suites have; twenty more in T+ alone, whose accuracy is another, take no part."""
    plus = [reading(f"p{i}|original|none", "ab", 1.0 if i < 10 else -1.0, suite="T+_add") for i in range(30)]
    minus = [reading(f"p{i}|reverse|add", "ab", 1.0 if i < 5 else -1.0, suite="T-_add") for i in range(10)]
    failed = Prediction("p10|reverse|add", "ab", None, "b", "p10", "T-_add", "f0", failure="no_verdict")
    plus, minus = ([replace(row, cluster=row.comparison_id.split("|")[0]) for row in rows] for rows in (plus, minus))
    total = next(r for r in summarise([*plus, *minus, failed]) if r.metric == "accuracy_sum")
    assert (total.suite, total.value, total.n) == ("T_add", pytest.approx(1.0 + 0.5), 20)
    # Ten pairs, each with a sum of 1 or 2: the standard error of their mean, by hand.
    assert total.standard_error == pytest.approx(math.sqrt(10 * 0.25 / 9 / 10))
    assert not [r for r in summarise([*plus[10:], *minus]) if r.metric == "accuracy_sum"], "no pair is in both"


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.floats(-5, 5), st.sampled_from("ab")), min_size=2, max_size=12), st.randoms())
def test_renaming_a_and_b_and_shuffling_rows_changes_nothing(rows: list[tuple[float, str]], random: object) -> None:
    plain = [reading(str(i), order, logit, label) for i, (logit, label) in enumerate(rows) for order in ("ab", "ba")]
    renamed = [
        replace(p, preference_logit=-p.preference_logit, label="ba"["ab".index(p.label)], order=p.order[::-1])
        for p in plain
    ]
    random.shuffle(renamed)  # type: ignore[attr-defined]
    first, second = values(plain), values(renamed)
    assert first.keys() == second.keys()
    assert all(second[name] == pytest.approx(first[name]) for name in first)


def test_results_round_trip_with_schema_version_and_environment(tmp_path: Path) -> None:
    results = summarise([*both("x", 1, 2), *both("y", -1, 2)], seeds=(1, 2), config="head=scalar", commit="abc")
    path = write_results(tmp_path, results, {"judge": "coin"})
    assert str(read_results(path)) == str(({"judge": "coin"}, results)), "as texts: NaN is not equal to itself"
    document = json.loads(path.read_text())
    assert document["schema_version"] == 2
    assert {"python", "numpy", "scipy"} <= document["environment"].keys()
    table = pd.read_csv(tmp_path / "results.csv")
    assert list(table["value"]) == [result.value for result in results]
    assert set(table["seeds"]) == {"1 2"}
    assert list(table.columns) == list(Result.__dataclass_fields__)
    replace_file(path, json.dumps({**document, "schema_version": 99}))
    with pytest.raises(ValueError, match="schema_version: 99"):
        read_results(path)
