"""Read suites with a judge, a row a comparison, and sum up their accuracies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from crm.data.comparisons import make_comparisons
from crm.io.words import count_words
from crm.judges.crm_judge import CrmJudge
from crm.judges.judge import Asked
from crm.report.statistics import cluster_interval, correctness
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


def accuracies(frames: Sequence[pd.DataFrame], column: str = "right") -> dict[str, dict[str, Any]]:
    """Of each suite the accuracy, in the mean over seeds (a frame each) and both directions, where .5 ignores criteria.

    ``low`` and ``high`` (95 %) are of the documents; ``seeds`` has the accuracy of each.
    """
    found = {}
    for name in frames[0]["suite"].unique():
        of_seeds = [frame[frame["suite"] == name].reset_index(drop=True) for frame in frames]
        first, right = of_seeds[0], sum(rows[column] for rows in of_seeds) / len(of_seeds)
        interval = cluster_interval(right.tolist(), first["cluster"].tolist(), [(side,) for side in first["side"]])
        found[name] = {
            "accuracy": round(interval.mean, 4),
            "low": round(interval.low, 4),
            "high": round(interval.high, 4),
            "seeds": [round(float(rows.groupby("side")[column].mean().mean()), 4) for rows in of_seeds],
            "n": interval.n,
            "documents": interval.clusters,
        }
    return found
