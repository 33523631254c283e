"""Accuracy by topic against numbers by hand."""

from __future__ import annotations

import pytest

from crm.evaluation.results import summarise
from crm.evaluation.results import ALL, COLUMNS, MAX_TOPICS, MEAN, NONE, topic_table
from crm.report.statistics import cluster_interval
from crm.schema import Prediction


def readings(name: str, logit: float, label: str = "a", suite: str = "D+", cluster: str = "") -> list[Prediction]:
    return [Prediction(name, order, logit, label, cluster or name, suite, "f") for order in ("ab", "ba")]


TOPICS = {"1": "art", "2": "art", "3": "art", "4": "law", "5": "law", "6": None, "7": "law", "8": "art"}
ROWS = [
    *readings("1", 1.0, cluster="p"),
    *readings("2", -1.0, "b", cluster="p"),
    *readings("3", -1.0),
    *readings("4", 0.0),
    *readings("5", 2.0),
    *readings("6", 2.0, "b"),
    *readings("7", 2.0, "tie"),
    *[Prediction("8", order, None, "a", "8", "D+", "f", failure="no_verdict") for order in ("ab", "ba")],
]


def test_topics_by_hand() -> None:
    table = topic_table(ROWS, {"D+": TOPICS})
    assert tuple(table.columns) == COLUMNS
    found = {name: (n, value) for name, n, value in zip(table["topic"], table["n"], table["accuracy"], strict=True)}
    assert list(found) == [ALL, MEAN, "art", "law", NONE]
    assert found["art"] == (3, pytest.approx(2 / 3))
    assert found["law"] == (2, pytest.approx(0.75))
    assert found[NONE] == (1, 0.0)
    assert found[ALL] == (6, pytest.approx(3.5 / 6))
    assert found[MEAN] == (6, pytest.approx((2 / 3 + 0.75 + 0) / 3))
    total = next(row for row in summarise(ROWS) if row.metric == "accuracy")
    assert tuple(table.loc[0, ["n", "accuracy", "low", "high"]]) == (total.n, total.value, total.low, total.high)


def test_intervals_are_clustered_by_prompt() -> None:
    table = topic_table(ROWS, {"D+": TOPICS}).set_index("topic")
    expected = cluster_interval([1, 1, 0], ["p", "p", "3"])
    assert tuple(table.loc["art", ["low", "high"]]) == (expected.low, expected.high)
    assert expected.low != cluster_interval([1, 1, 0], ["1", "2", "3"]).low


@pytest.mark.parametrize(("topics", "shown"), [(0, False), (1, False), (2, True), (60, True), (61, False)])
def test_only_suites_of_some_topics_are_broken_down(topics: int, shown: bool) -> None:
    assert MAX_TOPICS == 60
    rows = [row for index in range(61) for row in readings(str(index), 1.0)]
    of = {str(index): f"t{index % topics}" if topics else None for index in range(61)}
    table = topic_table([*rows, *readings("x", 1.0, suite="T+")], {"D+": of, "T+": {"x": "t0"}})
    assert (set(table["suite"]) == {"D+"}) is shown
    assert len(table) == (topics + 2 if shown else 0)


def test_topics_called_like_rows_of_the_table_have_rows_of_their_own() -> None:
    rows = [row for name, logit in (("1", 1.0), ("2", -1.0), ("3", 1.0), ("4", -1.0)) for row in readings(name, logit)]
    table = topic_table(rows, {"D+": {"1": ALL, "2": MEAN, "3": NONE, "4": None}})
    found = dict(zip(table["topic"], zip(table["n"], table["accuracy"], strict=True), strict=True))
    own = {f"topic {ALL}": (1, 1.0), f"topic {MEAN}": (1, 0.0), f"topic {NONE}": (1, 1.0), NONE: (1, 0.0)}
    assert found == {ALL: (4, 0.5), MEAN: (4, 0.5), **own}
