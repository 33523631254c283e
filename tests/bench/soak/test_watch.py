"""Slopes, percentiles and limits, by hand."""

from __future__ import annotations

import pytest

from bench.soak.stage import Found, Limit
from bench.soak.watch import ENOUGH_S, Watch, by_minute, slope


def grown(minutes: float, percent: float) -> Watch:
    """Memory of 500 MB that grows by so many percent in ten minutes, after caches have filled."""
    points = [(second, 500 * (1 + percent * second / 600 / 100), 9) for second in range(0, int(60 * minutes), 5)]
    return Watch(0.0, [(0.0, 100.0, 9), *points[1:]])


def test_the_slope_is_percent_of_the_middle_in_ten_minutes() -> None:
    assert slope([(0.0, 99.5, 1), (600.0, 100.5, 1)]) == pytest.approx(1.0)
    assert slope([(0.0, 100.0, 1), (60.0, 100.0, 1), (120.0, 100.0, 1)]) == pytest.approx(0.0)


@pytest.mark.parametrize(("percent", "held"), [(0.5, True), (1.5, False)])
def test_growth_is_judged_behind_the_warm_up(percent: float, held: bool) -> None:
    limit = grown(30, percent).limit("server")
    assert limit.found == pytest.approx(percent, rel=0.05)  # of the middle of the last 20 minutes
    assert limit.held is held


def test_what_was_too_short_is_not_judged() -> None:
    limit = grown(ENOUGH_S / 60, 50.0).limit("server")
    assert limit.found is None and limit.held and "needed" in limit.why
    assert Watch(0.0).limit("server").found is None


def test_waiting_by_the_minute() -> None:
    rows = by_minute([(0.0, 1.0), (59.9, 3.0), (125.0, 7.0)])
    assert [(row["minute"], row["n"], row["p50"]) for row in rows] == [(0, 2, 2.0), (2, 1, 7.0)]


def test_a_stage_holds_where_nothing_failed_and_every_limit_held() -> None:
    found = Found(limits=[Limit("kills", 3, at_least=3), Limit("difference", 0.0, at_most=0.0)])
    assert found.held
    found.limits.append(Limit("lines", 2, at_least=3))
    assert not found.held
    failed = Found()
    failed.fail("mixed", "a wish")
    assert not failed.held and failed.as_row()["examples"] == ["mixed: a wish"]
