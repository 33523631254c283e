"""Simulated people of known taste: how they pick, what they would type, and their true ranking.

A person cares about one to three axes of the simulation; what they pick follows their taste and not the judge. Answers
come as the module assumes: some are "same", one in twenty is a lapse. Others care about axes that the pool does not
have, or pick anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from crm.picking.posterior import CHOICES, probabilities
from crm.picking.session import Pair, Pick
from crm.report.statistics import Floats

Kind = Literal["fits", "fits nothing", "noise"]
COUNTS, SHARES = (1, 2, 3), (0.4, 0.35, 0.25)
"""How many axes somebody cares about, and how often."""
LEAST, MOST = 1.0, 3.0
"""Log-odds for one level of an axis that somebody cares about."""


@dataclass(frozen=True)
class Person:
    """``weights`` (A,) are log-odds for one level of each axis; ``levels`` (Q, M, A) are those of a bank."""

    weights: Floats
    levels: Floats

    def pick(
        self, pair: Pair, offered: tuple[int, ...], axes: Sequence[int], rng: np.random.Generator, *, tells_why: bool
    ) -> Pick:
        """Their answer; where they tell why, the offered criterion that speaks most for it, if one does.

        ``axes`` says of each criterion which axis it is about.
        """
        gap = self.levels[pair.query, pair.left] - self.levels[pair.query, pair.right]
        choice = CHOICES[int(rng.choice(3, p=probabilities(np.asarray(gap @ self.weights))))]
        if not tells_why or choice == "same":
            return Pick(pair, choice)
        spoken = (1 if choice == "left" else -1) * (gap * self.weights)[list(axes)]
        best = max(offered, key=lambda criterion: float(spoken[criterion]), default=None)
        return Pick(pair, choice, offered, best if best is not None and spoken[best] > 0 else None)

    def true_rates(self, baseline: int) -> Floats:
        """(M,) how likely they prefer each model to the baseline, in the mean over queries."""
        utility = self.levels @ self.weights
        return np.asarray(special.expit(utility - utility[:, [baseline]]).mean(axis=0))


def person(seed: int, levels: Floats, pool: int, kind: Kind) -> Person:
    """Somebody whose axes are among the first ``pool`` of ``levels``, or among the others, or who has none."""
    rng = np.random.default_rng([seed, 1])
    weights = np.zeros(levels.shape[2])
    if kind != "noise":
        able = np.arange(pool) if kind == "fits" else np.arange(pool, levels.shape[2])
        axes = rng.choice(able, size=rng.choice(COUNTS, p=SHARES), replace=False)
        weights[axes] = rng.choice((-1.0, 1.0), size=len(axes)) * rng.uniform(LEAST, MOST, size=len(axes))
    return Person(weights, levels)
