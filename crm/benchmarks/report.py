"""Means of a benchmark's points with intervals, paired differences, and the table that people read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from scipy import stats

from crm.benchmarks.catalogue import Benchmark
from crm.benchmarks.protocols import Point
from crm.report.statistics import Interval, cluster_interval, mean_interval
from crm.report.tables import number

BLIND_LIMIT = 0.6
"""A benchmark on which a rule that reads nothing is right more often is flagged."""
UNREAD_LIMIT = 0.05
"""Share of items without a verdict from which a number is no measure of a judge."""
MOST_CATEGORIES = 16


@dataclass(frozen=True)
class Outcome:
    """What one judge makes of one benchmark.

    ``criteria`` says which it was shown, empty for a ``blind`` rule; ``spread`` is the mean standard deviation of its
    rewards of one prompt, NaN where it gives none, ``unread`` the share of items without a verdict, in [0, 1].
    """

    judge: str
    criteria: str
    points: tuple[Point, ...]
    blind: bool = False
    spread: float = float("nan")
    unread: float = 0.0

    def of(self, metric: str, category: Sequence[str] = ()) -> list[Point]:
        """The points of a metric, or of one category of it."""
        size = len(category)
        return [point for point in self.points if point.metric == metric and point.category[:size] == tuple(category)]

    def metrics(self) -> list[str]:
        """In the order in which the benchmark counts them."""
        return list(dict.fromkeys(point.metric for point in self.points))

    def categories(self, metric: str) -> list[tuple[str, ...]]:
        """Those of a metric's points, a wide one before those in it; none where there are many, such as users."""
        keys = {point.category for point in self.of(metric)}
        found = {key[:level] for key in keys for level in range(1, len(key) + 1)}
        return sorted(found) if len(found) <= MOST_CATEGORIES else []


def estimates(outcome: Outcome, macro: int) -> dict[tuple[str, tuple[str, ...]], Interval]:
    """By metric and category, of all of them first."""
    return {
        (metric, part): estimate(outcome.of(metric, part), macro)
        for metric in outcome.metrics()
        for part in [(), *outcome.categories(metric)]
    }


def estimate(points: Sequence[Point], macro: int) -> Interval:
    """Mean with a 95 % interval, clustered: of proportions `cluster_interval`, else Student's t.

    Categories are strata as far as their ``macro`` widest levels. NaN limits for a single cluster.
    """
    values, clusters, strata = _columns(points, macro)
    if len(set(clusters)) > 1 and all(0 <= value <= 1 for value in values):
        return cluster_interval(values, clusters, strata)
    return mean_interval(values, clusters, strata)


def _columns(points: Sequence[Point], macro: int) -> tuple[list[float], list[str], list[tuple[str, ...]] | None]:
    strata = [point.category[:macro] for point in points] if macro else None
    return [point.value for point in points], [point.cluster for point in points], strata


def paired(first: Sequence[Point], second: Sequence[Point], macro: int) -> tuple[Interval, float]:
    """First minus second on the items of both, and the two-sided p-value of a clustered t-test.

    Where nothing varies there are no limits (NaN), and the p-value is that of a sign test.
    """
    other = {(point.metric, point.item): point for point in second}
    both = [(point, other[point.metric, point.item]) for point in first if (point.metric, point.item) in other]
    points = [Point(a.metric, a.item, a.cluster, a.value - b.value, a.category) for a, b in both]
    found = mean_interval(*_columns(points, macro))
    if not found.standard_error > 1e-12:
        p = 1.0 if found.mean == 0 else 2.0 ** (1 - found.clusters)
        return Interval(found.mean, np.nan, np.nan, np.nan, found.n, found.clusters), p
    return found, float(2 * stats.t.sf(abs(found.mean) / found.standard_error, found.clusters - 1))


def table(benchmark: Benchmark, outcomes: Sequence[Outcome]) -> pd.DataFrame:
    """A row a judge, blind rules and published numbers below; a column a metric and a category of the headline."""
    metrics = sorted(outcomes[0].metrics(), key=lambda metric: metric != benchmark.headline)
    parts = outcomes[0].categories(benchmark.headline)
    rows: list[dict[str, Any]] = []
    for outcome in outcomes:
        row: dict[str, Any] = {"judge": outcome.judge, "criteria": outcome.criteria}
        found = estimates(outcome, benchmark.macro)
        for metric in metrics:
            mean = found[metric, ()]
            row[metric] = number(mean.mean, mean.low, mean.high)
        for part in parts:
            own = found.get((benchmark.headline, part))
            n = len(outcomes[0].of(benchmark.headline, part))
            row[f"{' / '.join(part)} (n = {n})"] = number(own.mean if own else None)
        row |= {"no verdict": number(outcome.unread), "spread": number(outcome.spread)}
        rows.append(row)
    known = published().get(benchmark.name, {"models": {}})
    for model, percent in known["models"].items():
        metric = known.get("metric", benchmark.headline)
        rows.append({"judge": model, "criteria": "published", metric: number(percent / 100)})
    return pd.DataFrame(rows).fillna("–")


def published() -> dict[str, dict[str, Any]]:
    """Numbers of others in percent, by benchmark: ``source``, ``models`` and, unless it is the headline, ``metric``."""
    known: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("published.yaml").read_text("utf-8"))
    return known


def flags(benchmark: Benchmark, outcomes: Sequence[Outcome]) -> list[str]:
    """A line for each rule that reads nothing and is right more often than `BLIND_LIMIT`, with where it is."""
    found: list[str] = []
    for outcome in outcomes:
        places = [
            f"{own.mean:.3f} on {' '.join([*part, metric])} (n = {own.n})"
            for (metric, part), own in (estimates(outcome, benchmark.macro) if outcome.blind else {}).items()
            if len(part) <= 1 and own.mean > BLIND_LIMIT
        ]
        if places:
            found.append(f"{outcome.judge} reads nothing and has {', '.join(places)}")
    return found


def remarks(benchmark: Benchmark, outcomes: Mapping[str, Outcome]) -> list[str]:
    """How much a judge's headline depends on whose criteria it is shown; that it could not read many items."""
    found: list[str] = []
    if {"own", "other"} <= outcomes.keys():
        own, other = (outcomes[name].of(benchmark.headline) for name in ("own", "other"))
        less, p = paired(own, other, benchmark.macro)
        shown = f"{number(less.mean, less.low, less.high)}, p = {number(p)}"
        found.append(f"own criteria less another row's: {shown}; a judge that ignores criteria has 0")
    share = max(outcome.unread for outcome in outcomes.values())
    if share > UNREAD_LIMIT:
        found.append(f"{share:.1%} of the items hold a response that it could not read; they count as wrong")
    return found
