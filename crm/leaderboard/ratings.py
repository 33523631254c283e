"""Bradley-Terry strengths of a leaderboard's models. Letters: Q queries, M models with the baseline among them."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize, sparse, special

from crm.leaderboard.outcomes import Outcomes
from crm.report.statistics import Floats

LIMIT = 20.0
"""Largest strength in nats that a fit may reach; a model that always wins would otherwise run to infinity."""
FAR = 14.0
"""Nats from which on a fit has no finite end (a model that always wins): it stops somewhere below `LIMIT`."""


def bradley_terry(outcomes: Outcomes) -> tuple[dict[str, float], str]:
    """Strengths in nats, baseline 0, from pair probabilities; and which pairs were used, ``all`` or ``baseline``.

    Where the judge has scores, all pairs of models are compared on each query (sigmoid of the score difference);
    otherwise each candidate meets the baseline only, and its strength is the logit of its win rate. A model that could
    not be read on a query has lost there to everybody who could. One that always wins (loses) has strength (minus)
    infinity.
    """
    if outcomes.scores is None:
        pairs, strengths = "baseline", special.logit(np.nanmean(outcomes.wins[:, :-1], axis=0))
    else:
        pairs, (won, met) = "all", _all_pairs(outcomes.scores)
        one, two = np.nonzero(met)
        sides = sparse.identity(len(met), format="csr")
        # The baseline is last and stays 0.
        strengths = _fit((sides[one] - sides[two])[:, :-1], won[one, two], met[one, two])
    strengths = np.where(np.abs(strengths) >= FAR, np.copysign(np.inf, strengths), strengths)
    return {outcomes.baseline: 0.0, **dict(zip(outcomes.models, strengths.tolist(), strict=False))}, pairs


def elo(strength: float) -> float:
    """A strength in nats on the customary scale: the baseline has 1000, 400 points are odds of ten to one."""
    return 1000 + 400 / float(np.log(10)) * strength


def _all_pairs(scores: Floats) -> tuple[Floats, Floats]:
    """Expected wins and meetings (M, M), filled for row < column, over the queries that both models answered.

    ``scores`` (Q, M): minus infinity, where the judge could not read, is below every score; two of them do not meet.
    """
    by_model = np.ascontiguousarray(scores.T)
    won, met = np.zeros((2, len(by_model), len(by_model)))
    for row in range(len(by_model) - 1):
        with np.errstate(invalid="ignore"):  # infinity minus infinity is the NaN that is meant
            chance = special.expit(by_model[row] - by_model[row + 1 :])
        won[row, row + 1 :] = np.nansum(chance, axis=1)
        met[row, row + 1 :] = np.count_nonzero(~np.isnan(chance), axis=1)
    return won, met


def _fit(design: Any, wins: Floats, games: Floats) -> Floats:
    """Fractional logistic regression within [-LIMIT, LIMIT]: coefficients (K,) of ``design`` (N, K)."""
    total = games.sum()

    def loss(free: Floats) -> tuple[float, Floats]:
        logit = design @ free
        value = (games * np.logaddexp(0, logit) - wins * logit).sum() / total
        return float(value), design.T @ (games * special.expit(logit) - wins) / total

    size = design.shape[1]
    options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 10_000, "maxfun": 100_000}
    bounds = [(-LIMIT, LIMIT)] * size
    found = optimize.minimize(loss, np.zeros(size), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(found.x, dtype=np.float64)
