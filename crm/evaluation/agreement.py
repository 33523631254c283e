"""How a judge ranks rated responses. In: ratings by aspect and a judge's readings. Out: Spearman's rho with people.

Each response is compared with one and the same other of its group under each aspect's wording; the logits of a group
rank its responses, and so do the ratings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from crm.report.statistics import mean_interval
from crm.report.tables import number
from crm.schema import Comparison, Prediction
from crm.votes.public.pairs import RatedInPlace
from crm.votes.sampling import shuffled, turn

MEAN = "mean of aspects"


def rating_comparisons(
    responses: Sequence[RatedInPlace], wordings: Mapping[str, Sequence[str]], seed: int
) -> list[Comparison]:
    """Every response (A) against the first of its group by author (B), once an aspect, in a wording drawn by ``seed``.

    The label is ``tie``: ratings decide, not votes. The first itself is not compared: its logit is 0.
    """
    made = []
    for group, members in _groups(responses).items():
        first, *others = members
        for aspect, bank in wordings.items():
            for other in others:
                made.append(
                    Comparison(
                        id=json.dumps([group, aspect, other.rated.author]),
                        preference_id=group,
                        criteria=(shuffled(bank, seed, group, aspect)[0],),
                        prompt=other.prompt,
                        response_a=turn("assistant", other.rated.text),
                        response_b=turn("assistant", first.rated.text),
                        label="tie",
                        direction="none",
                    )
                )
    return made


def agreement(responses: Sequence[RatedInPlace], predictions: Sequence[Prediction]) -> pd.DataFrame:
    """Rows of aspects and of their mean: rho within a group, averaged over groups with a 95 % interval, and pooled.

    ``groups`` are those in which neither ratings nor logits are all equal and every response has a verdict; the others
    have no rho, and are left out. ``pooled`` is over all responses of all groups, from the judge's scores; a judge
    without scores has none.
    """
    logits, scores = _by_response(predictions)
    groups = _groups(responses)
    aspects = list(responses[0].rated.scores)
    within: dict[str, dict[str, float]] = {aspect: {} for aspect in aspects}
    for aspect in aspects:
        for group, members in groups.items():
            said = [0.0] + [logits.get((group, aspect, str(member.rated.author)), np.nan) for member in members[1:]]
            rho = spearman(said, [member.rated.scores[aspect] for member in members])
            if rho == rho:
                within[aspect][group] = rho
    rows = [_row(aspect, list(within[aspect].values()), _pooled(aspect, responses, scores)) for aspect in aspects]
    # A group counts in the mean where it has a rho under every aspect.
    common = set.intersection(*(set(found) for found in within.values()))
    means = [float(np.mean([within[aspect][group] for aspect in aspects])) for group in sorted(common)]
    pooled = [row["pooled"] for row in rows]
    return pd.DataFrame([*rows, _row(MEAN, means, float(np.mean(pooled)))])


def spearman(said: Sequence[float], rated: Sequence[float]) -> float:
    """Spearman's rho in [-1, 1]; NaN where a number is missing or one side is constant."""
    if np.isnan(said).any() or len(set(said)) < 2 or len(set(rated)) < 2:
        return float("nan")
    return float(stats.spearmanr(said, rated).statistic)


def shown(frame: pd.DataFrame) -> pd.DataFrame:
    """For people: an interval in one cell."""
    cells = [number(row.rho, row.low, row.high) for row in frame.itertuples()]
    return pd.DataFrame(
        {"aspect": frame["aspect"], "groups": frame["groups"], "within groups": cells, "pooled": frame["pooled"]}
    )


def _groups(responses: Sequence[RatedInPlace]) -> dict[str, list[RatedInPlace]]:
    groups: dict[str, list[RatedInPlace]] = {}
    for response in sorted(responses, key=lambda row: (row.group, str(row.rated.author))):
        groups.setdefault(response.group, []).append(response)
    return groups


def _by_response(predictions: Sequence[Prediction]) -> tuple[dict[Any, float], dict[Any, float]]:
    """Mean logit and score of both orders by (group, aspect, author); NaN where an order has none.

    The score of the one that all are compared with stands under the author ``None``.
    """
    logits: dict[Any, list[float]] = {}
    scores: dict[Any, list[float]] = {}
    for row in predictions:
        group, aspect, author = json.loads(row.comparison_id)
        logits.setdefault((group, aspect, author), []).append(_or_nan(row.preference_logit))
        scores.setdefault((group, aspect, author), []).append(_or_nan(row.score_a))
        scores.setdefault((group, aspect, None), []).append(_or_nan(row.score_b))
    return ({key: float(np.mean(values)) for key, values in found.items()} for found in (logits, scores))  # type: ignore[return-value]


def _pooled(aspect: str, responses: Sequence[RatedInPlace], scores: Mapping[Any, float]) -> float:
    said, rated = [], []
    for group, members in _groups(responses).items():
        for index, member in enumerate(members):
            said.append(scores.get((group, aspect, member.rated.author if index else None), np.nan))
            rated.append(member.rated.scores[aspect])
    return spearman(said, rated)


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _row(aspect: str, rhos: Sequence[float], pooled: float) -> dict[str, Any]:
    if not rhos:
        return {"aspect": aspect, "groups": 0, "rho": np.nan, "low": np.nan, "high": np.nan, "pooled": pooled}
    interval = mean_interval(rhos)
    low, high = (interval.low, interval.high) if interval.clusters > 1 else (np.nan, np.nan)
    return {"aspect": aspect, "groups": len(rhos), "rho": interval.mean, "low": low, "high": high, "pooled": pooled}
