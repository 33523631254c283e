"""Read suites with a judge, a row a comparison, and sum up their accuracies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import mean, stdev
from typing import Any

import pandas as pd

from crm.data.comparisons import make_comparisons
from crm.io.words import count_words
from crm.judges.crm_judge import CrmJudge
from crm.judges.judge import Asked
from crm.report.statistics import cluster_interval, correctness, mean_interval
from crm.schema import Comparison, Preference


def read_suites(judge: CrmJudge, suites: Mapping[str, Sequence[Preference]], steps: Any = iter) -> pd.DataFrame:
    """A row a comparison of each suite, in both directions where both have criteria.

    Columns: ``suite``, ``side`` (+ is the direction of the vote), ``cluster`` (the query), ``right`` and,
    for the judge that prefers more words, ``length``; 1 right, 0 wrong, 1/2 undecided. ``steps`` shows a bar.
    """
    rows = _comparisons(suites)
    gaps = _gaps(judge, [row for *_, row in rows], steps)
    found = []
    for (name, side, row), gap in zip(rows, gaps, strict=True):
        words = [count_words(text[-1].content) for text in (row.response_a, row.response_b)]
        label = [int(row.label == "a")]
        gap = 0.0 if math.isnan(gap) else gap  # what is too long to be read is undecided
        right, length = (float(correctness([value], label)[0]) for value in (gap, words[0] - words[1]))
        found.append((name, side, row.cluster, right, length))
    return pd.DataFrame(found, columns=["suite", "side", "cluster", "right", "length"])


def _gaps(judge: CrmJudge, rows: Sequence[Comparison], steps: Any) -> list[float]:
    """The preference logit of each, response A shown first; NaN for what is too long."""
    gaps = [math.nan] * len(rows)
    asked: list[Asked] = [(replace(row, id=str(place)), "ab") for place, row in enumerate(rows)]
    for start in steps(range(0, len(asked), judge.together)):
        for reading in (one for portion in judge.read(asked[start : start + judge.together]) for one in portion):
            if reading.preference_logit is not None:
                gaps[int(reading.comparison.id)] = reading.preference_logit
    return gaps


def _comparisons(suites: Mapping[str, Sequence[Preference]]) -> list[tuple[str, str, Comparison]]:
    found = []
    for name, preferences in suites.items():
        for side, direction in (("+", "original"), ("-", "reverse")):
            made, _ = make_comparisons(preferences, direction=direction, noise="none", pool=None, seed=0, epoch=0)
            found += [(name, side, row) for row in made]
    return found


def sums(frames: Sequence[pd.DataFrame], column: str = "right") -> dict[str, dict[str, float]]:
    """Of each suite accuracy in the direction of the vote plus that in the opposite one: 1 ignores the criteria.

    A frame a seed. ``low`` and ``high`` (95 %) are of the mean over seeds where there are several, else of the queries.
    """
    found: dict[str, dict[str, float]] = {}
    for name in frames[0]["suite"].unique():
        of_suite = [frame[frame["suite"] == name] for frame in frames]
        values = [float(rows.groupby("side")[column].mean().sum()) for rows in of_suite]
        sides = of_suite[0]["side"].nunique()
        first = of_suite[0]
        strata = [(side,) for side in first["side"]]
        interval = cluster_interval(first[column].tolist(), first["cluster"].tolist(), strata)
        low, high = sides * interval.low, sides * interval.high
        if len(values) > 1:
            over_seeds = mean_interval(values)
            low, high = over_seeds.low, over_seeds.high
        found[name] = {
            "sum": round(mean(values), 4),
            "low": round(low, 4),
            "high": round(high, 4),
            "spread": round(stdev(values), 4) if len(values) > 1 else 0.0,
            "n": len(of_suite[0]),
            "directions": sides,
        }
    return found
