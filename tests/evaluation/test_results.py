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

from crm.evaluation.predictions import read_predictions
from crm.evaluation.results import read_results, results_frame, summarise, write_results
from crm.io.files import replace_file
from crm.schema import Prediction, Result, to_json


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


def test_flip_rate_counts_the_comparisons_whose_orders_disagree() -> None:
    rows = [*both("x", 1.0, 2.0), *both("y", 1.0, -1.0), *both("z", -2.0, -3.0), *both("half", 0.0, 1.0)]
    assert values(rows[:6])["flip_rate"] == pytest.approx(1 / 3)
    assert values(rows)["flip_rate"] == pytest.approx(2 / 4)
    assert values([*rows[:6], rows[6]])["flip_rate"] == pytest.approx(1 / 3)  # one order only: left out, counted


def test_two_orders_are_one_sample() -> None:
    single = [reading(str(i), "ab", float(i % 3 - 1)) for i in range(9)]
    doubled = single + [replace(row, order="ba") for row in single]
    one, two = summarise(single), summarise(doubled)
    metric = {result.metric: result for result in two}
    for result in one:
        if result.metric != "n_one_order":
            assert metric[result.metric] == result
    assert metric["accuracy"].n == 9


def test_rows_of_one_prompt_are_one_cluster() -> None:
    rows = [reading(str(i), "ab", 1.0 if i < 8 else -1.0, cluster=str(i % 2)) for i in range(10)]
    spread = [replace(row, cluster=row.comparison_id) for row in rows]
    clustered, independent = (next(r for r in summarise(x) if r.metric == "accuracy") for x in (rows, spread))
    assert clustered.value == independent.value
    assert clustered.high - clustered.low > independent.high - independent.low


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


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3), st.integers(1, 3), st.integers(0, 3)), min_size=4))
def test_a_blind_judge_sums_to_one_whatever_it_could_not_read(rows: list[tuple[float, float, int, int]]) -> None:
    """Bits of the last two numbers: which orders have a verdict under the winner's and the loser's criteria."""
    read = [
        reading(f"a|b{place}|{direction}|none", order, logit, label, suite, f"a|b{place}")
        for place, (ab, ba, *bits) in enumerate(rows)
        for has, (direction, label, suite) in zip(bits, (("original", "a", "D+"), ("reverse", "b", "D-")), strict=True)
        for bit, order, logit in ((1, "ab", ab), (2, "ba", ba))
        if has & bit
    ]
    total = [r.value for r in summarise(read) if r.metric == "accuracy_sum"]
    assert total == ([pytest.approx(1.0)] if any(one & other for *_, one, other in rows) else [])


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


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([reading("x", "ab", 1.0), reading("x", "ab", 1.0)], "x in order ab appears twice"),
        ([reading("x", "ab", 1.0), replace(reading("y", "ab", 1.0), fingerprint="f1")], "mixes f0, f1"),
        ([reading("x", "ab", 1.0), reading("x", "ba", 1.0, label="b")], "differ in label"),
        ([], "none given"),
    ],
)
def test_inconsistent_predictions_are_refused(rows: list[Prediction], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        summarise(rows)


def test_predictions_round_trip_and_a_cut_last_line_is_counted(tmp_path: Path) -> None:
    rows = [*both("grün\u2028x", 0.25, -1e-9), *both("b", 1, 2)]
    text = "".join(to_json(row) + "\n" for row in rows)
    path = replace_file(tmp_path / "p.jsonl", text)
    assert read_predictions(path) == rows
    path.write_bytes(text.encode()[:-40])
    with pytest.warns(UserWarning, match=r"p\.jsonl:4: unfinished last line left out, 3 rows kept"):
        assert read_predictions(path) == rows[:3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"preference_logit": "1"}, "preference_logit: expected a finite number, got '1'"),
        ({"preference_logit": math.nan}, "preference_logit: expected a finite number, got nan"),
        ({"preference_logit": True}, "preference_logit"),
        ({"score_a": math.inf}, "score_a"),
        ({"label": "c"}, "label: 'c' is not one of"),
        ({"order": "aa"}, "order"),
        ({"cluster": None}, "cluster: expected text"),
        ({"extra": "1"}, "extra: unknown field"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, change: dict[str, object], message: str) -> None:
    good = reading("x", "ab", 1.0)
    bad = json.dumps({**good.to_dict(), **change})
    path = replace_file(tmp_path / "p.jsonl", to_json(good) + "\n\n" + bad + "\n")
    with pytest.raises(ValueError) as error:
        read_predictions(path)
    assert f"{path}:3: {message}" in str(error.value)


@pytest.mark.parametrize("line", ["{", "[]", '"x"', "\x00", "{}", "[" * 100000])
def test_a_broken_line_in_the_middle_stops(tmp_path: Path, line: str) -> None:
    path = replace_file(tmp_path / "p.jsonl", line + "\n" + to_json(reading("x", "ab", 1.0)) + "\n")
    with pytest.raises(ValueError, match=r"p\.jsonl:1: row: "):
        read_predictions(path)


def test_results_round_trip_with_schema_version_and_environment(tmp_path: Path) -> None:
    results = summarise([*both("x", 1, 2), *both("y", -1, 2)], seeds=(1, 2), config="head=scalar", commit="abc")
    path = write_results(tmp_path, results, {"judge": "coin"})
    assert read_results(path) == results
    assert json.loads(path.read_text())["run"] == {"judge": "coin"}
    document = {name: value for name, value in json.loads(path.read_text()).items() if name != "seal"}
    assert document["schema_version"] == 2
    assert {"python", "numpy", "scipy"} <= document["environment"].keys()
    table = pd.read_csv(tmp_path / "results.csv")
    assert list(table["value"]) == [result.value for result in results]
    assert set(table["seeds"]) == {"1 2"}
    assert list(table.columns) == list(results_frame(results).columns)
    replace_file(path, json.dumps({**document, "schema_version": 99}))
    with pytest.raises(ValueError, match="schema_version: 99"):
        read_results(path)


def test_the_unknown_spread_of_one_prompt_survives_json(tmp_path: Path) -> None:
    results = summarise(both("x", 1, 2))
    back = read_results(write_results(tmp_path, results, {}))
    loss: Result = next(result for result in back if result.metric == "log_loss")
    assert math.isnan(loss.low)
    assert math.isnan(loss.standard_error)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = replace_file(tmp_path / "x.txt", "old")

    def fail(*_: object) -> None:
        raise OSError("disk")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk"):
        replace_file(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
