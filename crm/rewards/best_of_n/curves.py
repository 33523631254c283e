"""Curves over k with intervals. In: picks, gold, prompts. Out: a row a picker, k and measure, and where gold peaks.

Every number is a mean over queries with a Student's t interval clustered by prompt. Differences are taken query by
query. ``n`` are the queries that have a value: those with at least k responses that were read and whose gold is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from crm.report.statistics import Interval, mean_interval
from crm.report.tables import number
from crm.rewards.best_of_n.estimator import Floats, expected
from crm.rewards.best_of_n.picking import Picks

MEASURES = {
    "gold": "gold of the pick",
    "gain": "gold of the pick less that of a random response",
    "regret": "gold of the best of the k responses less that of the pick",
    "reward": "what the pick was given by whoever picked it",
    "words": "words of the pick",
}
COLUMNS = ("picked_by", "k", "measure", "mean", "standard_error", "low", "high", "n", "prompts")
ROUNDING = 1e-9
"""Means that differ by less are equal."""
SHARE = 0.5
"""Of the queries, that must have a value at a k which may be a peak."""


@dataclass(frozen=True)
class Peak:
    """The least k at which the gold of a picker is highest, over the queries that have a value at every k.

    ``loss`` is what the largest k gives less than the peak does (None where that is the peak). The peak is chosen on
    the same queries, so that a loss is rather too large than too small: over-optimization only where its ``low`` is
    well above 0.
    """

    picked_by: str
    k: int
    largest: int
    loss: Interval | None
    n: int


def curves(
    picks: Mapping[str, Picks], gold: Floats, words: Floats, clusters: Sequence[str], ks: Sequence[int]
) -> pd.DataFrame:
    """`COLUMNS`, of ``gold`` and ``words`` (Q, n); what nobody knows has no row. ``picks`` has an ``oracle``."""
    best = expected(picks["oracle"].picked, gold)
    rows = []
    for name, own in picks.items():
        found = expected(own.picked, gold)
        measured = {"gold": found, "gain": found - found[:, :1], "regret": best - found}
        if own.scores is not None:
            measured["reward"] = expected(own.picked, own.scores)
        measured["words"] = expected(own.picked, words)
        for measure, values in measured.items():
            intervals = [(k, interval_of(values[:, at], clusters)) for at, k in enumerate(ks)]
            rows += [_row(name, measure, k, interval) for k, interval in intervals if interval is not None]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def peaks(picks: Mapping[str, Picks], gold: Floats, clusters: Sequence[str], ks: Sequence[int]) -> list[Peak]:
    """One for each picker, over every k for which half of its queries have a value, and the queries that have them all.

    Not of ``random``, which is the same at every k.
    """
    found = []
    for name, own in ((name, own) for name, own in picks.items() if name != "random"):
        values = expected(own.picked, gold)
        held = (~np.isnan(values)).mean(axis=0) >= SHARE
        whole = np.flatnonzero(~np.isnan(values[:, held]).any(axis=1))
        if not (held.any() and len(whole)):
            continue
        told = values[whole][:, held]
        means = told.mean(axis=0)
        at = int(np.argmax(means >= means.max() - ROUNDING))
        names = [clusters[place] for place in whole.tolist()]
        shown = [ks[place] for place in np.flatnonzero(held).tolist()]
        loss = None if at == told.shape[1] - 1 else interval_of(told[:, at] - told[:, -1], names)
        found.append(Peak(name, shown[at], shown[-1], loss, len(told)))
    return found


def interval_of(values: Floats, clusters: Sequence[str]) -> Interval | None:
    """Of the values (Q,) that are there; None where there are none. A single prompt says nothing of limits: NaN."""
    there = ~np.isnan(values)
    if not there.any():
        return None
    found = mean_interval(values[there], [cluster for cluster, told in zip(clusters, there, strict=True) if told])
    return found if found.clusters > 1 else Interval(found.mean, np.nan, np.nan, np.nan, found.n, 1)


def gold_table(frame: pd.DataFrame, measure: str = "gold") -> pd.DataFrame:
    """A picker a row, k a column, cells ``mean [low, high]``."""
    rows = frame[frame["measure"] == measure]
    cells = [number(row.mean, row.low, row.high) for row in rows[["mean", "low", "high"]].itertuples(name="Row")]
    shown = rows.assign(cell=cells).pivot(index="picked_by", columns="k", values="cell").fillna("–")
    shown = shown.loc[list(dict.fromkeys(rows["picked_by"]))].reset_index()
    return shown.rename(columns={k: f"k = {k}" for k in shown.columns if k != "picked_by"}).rename_axis(None, axis=1)


def _row(name: str, measure: str, k: int, found: Interval) -> tuple[object, ...]:
    return name, k, measure, found.mean, found.standard_error, found.low, found.high, found.n, found.clusters
