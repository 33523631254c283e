"""Rank correlations of accuracy with use, with intervals and p-values, for each suite and use.

Intervals are of a bootstrap that draws judges anew, and with every draw the prompts of each suite and of each use. All
correlations rest on the same draws, so that a difference of two has an interval too. Letters: B draws, J judges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from crm.report.statistics import Floats, Indices, holm
from experiments.does_accuracy_predict.judges import BASES
from experiments.does_accuracy_predict.ranks import kendall, permutation_p, spearman
from experiments.does_accuracy_predict.saved import Saved

RESAMPLES = 2000
ALL = "mean"
"""The mean of all suites, both directions."""
LIMITS = (0.025, 0.975)
LEAST = 4
"""Judges, of whom a correlation says something."""


@dataclass(frozen=True)
class Drawn:
    """(1 + B, J) accuracies by suite and values by use; the first row is what was found, the others are drawn anew."""

    accuracies: dict[str, Floats]
    uses: dict[str, Floats]


def draw(saved: Saved, *, seed: int, resamples: int = RESAMPLES) -> Drawn:
    """Prompts drawn with replacement, the same for all judges and for both directions of a suite.

    A suite ``X`` is the mean of ``X+`` and ``X-``: half of their sum.
    """
    random = np.random.default_rng(seed)
    accuracies: dict[str, Floats] = {}
    for base in BASES:
        signs = [f"{base}{sign}" for sign in "+-"]
        prompts = 1 + max(int(saved.prompts[suite].max()) for suite in signs)
        counts = _counts(random, prompts, resamples)
        for suite in signs:
            accuracies[suite] = weighted(saved.right[suite], counts[:, saved.prompts[suite]])
        accuracies[base] = (accuracies[signs[0]] + accuracies[signs[1]]) / 2
    accuracies[ALL] = np.mean([accuracies[base] for base in BASES], axis=0)
    drawn = {width: _counts(random, width, resamples) for width in sorted({v.shape[1] for v in saved.uses.values()})}
    uses = {use: weighted(values, drawn[values.shape[1]]) for use, values in saved.uses.items()}
    return Drawn(accuracies, uses)


def weighted(values: Floats, weights: Floats) -> Floats:
    """(B, J) means of ``values`` (J, N) by ``weights`` (B, N), over what is not NaN."""
    there = ~np.isnan(values)
    with np.errstate(invalid="ignore"):
        return np.asarray((weights @ np.where(there, values, 0).T) / (weights @ there.T.astype(np.float64)))


def measured(drawn: Drawn, use: str, judges: Indices) -> Indices:
    """Those of the judges that have a value of the use."""
    return np.asarray(judges[~np.isnan(drawn.uses[use][0, judges])])


def correlations(drawn: Drawn, groups: dict[str, Indices], *, seed: int) -> list[dict[str, Any]]:
    """A row a group of judges, use and suite; those with fewer than `LEAST` judges are left out.

    ``behind`` is by how much the suite's Spearman is lower than that of the use's best suite, which was chosen by the
    same data; ``p_holm`` is corrected for the suites and uses of the group.
    """
    rows: list[dict[str, Any]] = []
    for group, judges in groups.items():
        own: list[dict[str, Any]] = []
        for place, use in enumerate(drawn.uses):
            known = measured(drawn, use, judges)
            if len(known) >= LEAST:
                own += _of_use(drawn, use, known, group, [seed, place])
        corrected = holm([1.0 if np.isnan(row["p"]) else row["p"] for row in own])
        rows += [row | {"p_holm": value} for row, value in zip(own, corrected.tolist(), strict=True)]
    return rows


def _of_use(drawn: Drawn, use: str, judges: Indices, group: str, seed: Sequence[int]) -> list[dict[str, Any]]:
    """The suites of one use, all on the same draws."""
    resamples = len(drawn.uses[use])
    again = np.random.default_rng(seed).choice(judges, (resamples, len(judges)))
    again[0] = judges
    values = np.take_along_axis(drawn.uses[use], again, axis=1)
    read = {suite: np.take_along_axis(own, again, axis=1) for suite, own in drawn.accuracies.items()}
    rho = {suite: spearman(own, values) for suite, own in read.items()}
    best = max(rho, key=lambda suite: -2.0 if np.isnan(rho[suite][0]) else rho[suite][0])
    return [
        {
            "judges": group,
            "suite": suite,
            "use": use,
            "n": len(judges),
            **_interval("spearman", rho[suite], "low", "high"),
            "p": permutation_p(own[0], values[0], seed[0]),
            **_interval("kendall", kendall(own, values), "kendall_low", "kendall_high"),
            "best_suite": best,
            **_interval("behind", rho[best] - rho[suite], "behind_low", "behind_high"),
        }
        for suite, own in read.items()
    ]


def _interval(name: str, values: Floats, low: str, high: str) -> dict[str, float]:
    """What was found, and limits from the draws in which it is defined."""
    drawn = values[1:][~np.isnan(values[1:])]
    limits = np.quantile(drawn, LIMITS).tolist() if len(drawn) else [np.nan, np.nan]
    return {name: float(values[0]), low: limits[0], high: limits[1]}


def _counts(random: np.random.Generator, prompts: int, resamples: int) -> Floats:
    """(1 + B, prompts) how often each was drawn; once each in the first row."""
    drawn = random.multinomial(prompts, np.full(prompts, 1 / prompts), resamples)
    return np.concatenate([np.ones((1, prompts)), drawn.astype(np.float64)])
