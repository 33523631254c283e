"""Mean and limits of a number that was measured with several seeds, each with its interval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite, nan, sqrt

import numpy as np
import pandas as pd

from crm.report.statistics import Interval, mean_interval
from crm.report.tables import number
from crm.schema import Result

INTERVALS = (
    "Intervals are 95 %. A cell is the mean over seeds; each limit lies sqrt(a^2 + b^2) from it, where a is the mean "
    "distance of the seeds' own limits (clustered by prompt; for tau a bootstrap over queries), and b is that of "
    "Student's t over the seeds' values. So the interval covers other prompts and other seeds; one seed has no b. "
    "The number in brackets is n: comparisons (for tau: queries) a seed. The CSV has every seed's value."
)


@dataclass(frozen=True)
class Cell:
    """``mean`` over ``seeds`` (seed to value) with 95 % limits, NaN where unknown; ``n`` samples behind each value."""

    mean: float
    low: float
    high: float
    n: int
    seeds: Mapping[int, float]

    def __str__(self) -> str:
        count = f" ({self.n})" if self.n else ""
        return number(self.mean, self.low, self.high) + count


def over_seeds(measured: Mapping[int, Interval], lowest: float = 0.0, highest: float = 1.0) -> Cell:
    """Put seeds together: the limits add the spread over samples and that over seeds in squares.

    Seeds read the same samples, so that the spread over samples does not shrink with their number; the spread over
    seeds is Student's t. The squares are added a side at a time (Zou and Donner 2008), so that limits near 0 and 1 stay
    one-sided. Limits are kept within [``lowest``, ``highest``]; ``n`` is the smallest of the seeds'. Raises
    ``ValueError`` for no seeds.
    """
    if not measured:
        raise ValueError("seeds: none measured, expected one or more")
    values = {seed: interval.mean for seed, interval in measured.items()}
    mean = sum(values.values()) / len(values)
    count = min(interval.n for interval in measured.values())
    between = mean_interval(list(values.values()))
    reach = between.high - between.mean if len(values) > 1 else 0.0
    below = _reach([row.mean - row.low for row in measured.values()], reach)
    above = _reach([row.high - row.mean for row in measured.values()], reach)
    low, high = np.clip([mean - below, mean + above], lowest, highest)  # which leaves NaN as it is
    return Cell(mean, float(low), float(high), count, values)


def _reach(distances: list[float], between: float) -> float:
    """NaN where a seed has no limit of its own."""
    within = sum(distances) / len(distances)
    return sqrt(within**2 + between**2) if isfinite(within) else nan


def accuracies(results: Iterable[Result]) -> dict[str, Interval]:
    """The accuracy of every suite, by the suite's name."""
    return {
        row.suite: Interval(row.value, row.standard_error, row.low, row.high, row.n, row.n)
        for row in results
        if row.metric == "accuracy"
    }


@dataclass(frozen=True)
class Grid:
    """``cells[row, column]``; a pair that nothing was measured for is missing, and shown as a dash.

    ``paper`` holds published numbers by row; ``measure`` says what the cells are, for the caption.
    """

    head: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell]
    paper: Mapping[str, str]
    measure: str = "accuracy [95 % interval] (comparisons)"

    def frame(self) -> pd.DataFrame:
        """For people: a cell as ``0.946 [0.918, 0.964] (371)``, and a column ``paper`` where there are such numbers."""
        table = []
        for row in self.rows:
            line = {self.head: row} | {name: self._text(row, name) for name in self.columns}
            table.append(line | ({"paper": self.paper.get(row) or "–"} if any(self.paper.values()) else {}))
        return pd.DataFrame(table)

    def long(self) -> pd.DataFrame:
        """For machines: a line a cell, numbers in full, a column a seed."""
        seeds = sorted({seed for cell in self.cells.values() for seed in cell.seeds})
        return pd.DataFrame(
            {self.head: row, "column": column, "mean": cell.mean, "low": cell.low, "high": cell.high, "n": cell.n}
            | {f"seed {seed}": cell.seeds.get(seed, nan) for seed in seeds}
            for (row, column), cell in self.cells.items()
        )

    def _text(self, row: str, column: str) -> str:
        return str(self.cells[row, column]) if (row, column) in self.cells else "–"
