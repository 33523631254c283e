"""Cells against arithmetic by hand and against Student's t of scipy; grids as people and machines read them."""

from __future__ import annotations

from math import isnan, sqrt

import pytest
from scipy import stats

from crm.report.statistics import Interval
from experiments.paper_tables.cells import Cell, Grid, over_seeds


def interval(mean: float, low: float, high: float, n: int = 100) -> Interval:
    return Interval(mean, 0.01, low, high, n, n)


def test_one_seed_keeps_its_own_limits() -> None:
    cell = over_seeds({42: interval(0.9, 0.85, 0.93)})
    assert (cell.mean, cell.n, cell.seeds) == (0.9, 100, {42: 0.9})
    assert (cell.low, cell.high) == pytest.approx((0.85, 0.93))
    assert str(cell) == "0.900 [0.850, 0.930] (100)"


def test_seeds_that_differ_widen_it_by_students_t() -> None:
    values = (0.6, 0.7, 0.75)
    cell = over_seeds({seed: interval(value, value - 0.03, value + 0.02) for seed, value in enumerate(values)})
    low, high = stats.t.interval(0.95, 2, loc=0, scale=stats.sem(values))
    assert cell.mean == pytest.approx(sum(values) / 3)
    assert cell.mean - cell.low == pytest.approx(sqrt(0.03**2 + low**2))
    assert cell.high - cell.mean == pytest.approx(sqrt(0.02**2 + high**2))


def test_limits_stay_possible_and_an_unknown_one_stays_unknown() -> None:
    cell = over_seeds({1: interval(0.0, 0.0, 0.05, 90), 2: interval(1.0, 0.95, 1.0, 80)})
    assert (cell.low, cell.high, cell.n) == (0.0, 1.0, 80)
    tau = over_seeds({1: interval(-0.9, -1.0, -0.7), 2: interval(-0.5, -0.8, -0.2)}, lowest=-1.0)
    assert tau.low == -1.0 and tau.high > -0.2
    unknown = over_seeds({1: interval(0.5, float("nan"), float("nan")), 2: interval(0.6, 0.5, 0.7)})
    assert isnan(unknown.low) and isnan(unknown.high) and str(unknown) == "0.550 (100)"
    with pytest.raises(ValueError, match="seeds: none measured"):
        over_seeds({})


def test_a_grid_shows_what_was_measured_and_what_was_published() -> None:
    cells = {
        ("scalar", "D+"): Cell(0.9, 0.8, 0.95, 10, {1: 0.88, 2: 0.92}),
        ("coin", "D+"): Cell(0.5, 0.4, 0.6, 10, {1: 0.5}),
        ("coin", "D-"): Cell(0.5, 0.4, 0.6, 9, {1: 0.5}),
    }
    grid = Grid("judge", ("scalar", "coin"), ("D+", "D-"), cells, {"scalar": "97 %", "coin": ""})
    assert grid.frame().to_dict("list") == {
        "judge": ["scalar", "coin"],
        "D+": ["0.900 [0.800, 0.950] (10)", "0.500 [0.400, 0.600] (10)"],
        "D-": ["–", "0.500 [0.400, 0.600] (9)"],
        "paper": ["97 %", "–"],
    }
    assert "paper" not in Grid("judge", ("coin",), ("D+",), cells, {"coin": ""}).frame()
    long = grid.long().set_index(["judge", "column"])
    assert list(long.columns) == ["mean", "low", "high", "n", "seed 1", "seed 2"]
    assert list(long.loc[("scalar", "D+")]) == [0.9, 0.8, 0.95, 10, 0.88, 0.92]
    assert isnan(long.loc[("coin", "D-"), "seed 2"])
