"""Fitted views of a leaderboard: Bradley-Terry strengths and length-controlled win rates.

Letters: Q queries, M models with the baseline among them, C = M - 1 candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, sparse, special

from crm.leaderboard.outcomes import Flags, Outcomes
from crm.report.statistics import Floats, wilson

LIMIT = 20.0
"""Largest strength in nats that a fit may reach; a model that always wins would otherwise run to infinity."""
FAR = 14.0
"""Nats from which on a fit has no finite end (a model that always wins): it stops somewhere below `LIMIT`."""
SAME_LENGTH = 0.01
"""Share of the squared length differences within models below which length and model cannot be told apart."""
FAINT = 1e-7
"""Penalty on the length coefficient; it decides only where lengths do not vary within any model."""


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
    strengths = np.where(np.abs(strengths) >= FAR, np.sign(strengths) * np.inf, strengths)
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


def _fit(design: Any, wins: Floats, games: Floats, penalty: Floats | float = 0.0) -> Floats:
    """Fractional logistic regression within [-LIMIT, LIMIT]: coefficients (K,) of ``design`` (N, K)."""
    total = games.sum()

    def loss(free: Floats) -> tuple[float, Floats]:
        logit = design @ free
        value = (games * np.logaddexp(0, logit) - wins * logit).sum() / total + (penalty * free**2).sum()
        return float(value), design.T @ (games * special.expit(logit) - wins) / total + 2 * penalty * free

    size = design.shape[1]
    options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 10_000, "maxfun": 100_000}
    bounds = [(-LIMIT, LIMIT)] * size
    found = optimize.minimize(loss, np.zeros(size), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(found.x, dtype=np.float64)


@dataclass(frozen=True)
class LengthControl:
    """Length-controlled win rates with 95 % limits, by model; NaN where the data do not determine it, and ``why``."""

    rates: dict[str, float]
    low: dict[str, float]
    high: dict[str, float]
    coefficient: float
    why: str = ""


def length_control(outcomes: Outcomes) -> LengthControl:
    """Win rate, in [0, 1], that each candidate would have at the baseline's length, with 95 % limits over queries.

    Fractional logistic regression P = sigmoid(theta_m + beta tanh(d / std(d))), d the difference in words, one beta
    for all models; the rate is sigmoid(theta_m). After AlpacaEval 2 LC (Dubois et al. 2024, arXiv 2404.04475), without
    its per-query difficulty. It is fitted to what was read; queries on which a model could not be read are lost
    whatever their length, and its rate falls by their share.

    Limits are clustered by query: the sandwich of the fit's scores, with Student's t on the scale of theta.
    """
    names = outcomes.models[:-1]
    read = np.asarray(~np.isnan(outcomes.logits[:, :-1]))
    words = outcomes.words[:, :-1] - outcomes.words[:, -1:]
    spread = words[read].std() if read.any() else 0.0
    length = np.where(read, np.tanh(words / spread), 0.0) if spread > 0 else np.zeros_like(words)
    target = np.where(read, outcomes.wins[:, :-1], 0.0)
    theta, beta = _fit_lengths(target, length, read)
    if why := _undetermined(np.where(read, words, 0.0), beta, length, read):
        unknown = dict.fromkeys(names, np.nan)
        return LengthControl(unknown, unknown, unknown, float("nan"), why)
    error = _errors(target, theta, beta, length, read)
    half = special.stdtrit(len(length) - 1, 0.975) * error
    rate, low, high = special.expit(theta), special.expit(theta - half), special.expit(theta + half)
    floor, ceiling = wilson(rate, len(length))
    constant = error * rate * (1 - rate) < 1e-9  # no residual: as `win_rate_limits` of equal values
    low, high = np.where(constant, np.minimum(floor, rate), low), np.where(constant, np.maximum(ceiling, rate), high)
    share = read.sum(axis=0) / outcomes.answered[:, :-1].sum(axis=0)
    far = np.abs(theta) >= FAR
    columns = [dict(zip(names, np.where(far, np.nan, one * share).tolist(), strict=True)) for one in (rate, low, high)]
    always = ", ".join(name for name, one in zip(names, far, strict=True) if one)
    why = f"length control is not determined for {always}: always won or always lost" if always else ""
    return LengthControl(columns[0], columns[1], columns[2], beta, why)


def _fit_lengths(target: Floats, length: Floats, read: Flags) -> tuple[Floats, float]:
    """Strengths (C,) and length coefficient of ``target`` at ``length``, where ``read``, each (Q, C)."""
    models = read.shape[1]
    _, model = np.nonzero(read)
    design = sparse.hstack([sparse.identity(models, format="csr")[model], length[read][:, None]], format="csr")
    found = _fit(design, target[read], np.ones(len(model)), np.append(np.zeros(models), FAINT))
    return found[:-1], float(found[-1])


def _undetermined(extra: Floats, beta: float, length: Floats, read: Flags) -> str:
    """Why the effect of length cannot be separated from that of the models; empty where it can."""
    reason = ""
    mean = length.sum(axis=0) / np.maximum(read.sum(axis=0), 1)
    within = (np.where(read, length - mean, 0.0) ** 2).sum()
    if len(length) < 2:
        reason = "there is one query only"
    elif extra.any() and within <= SAME_LENGTH * (length**2).sum():
        reason = "the lengths of a model hardly vary"
    elif abs(beta) >= FAR:
        reason = "the length coefficient is at its limit"
    return f"length control is not determined: {reason}" if reason else ""


def _errors(target: Floats, theta: Floats, beta: float, length: Floats, read: Flags) -> Floats:
    """(C,) standard errors of theta, clustered by query: the inverse Hessian around the scores of the queries."""
    chance = np.where(read, special.expit(theta + beta * length), 0.0)
    slope, weight = target - chance, chance * (1 - chance)
    scores = np.column_stack([slope, (slope * length).sum(axis=1)])
    hessian = np.diag(np.append(weight.sum(axis=0), (weight * length**2).sum()))
    hessian[-1, :-1] = hessian[:-1, -1] = (weight * length).sum(axis=0)
    moved = scores @ np.linalg.pinv(hessian)
    return np.asarray(np.sqrt((moved[:, :-1] ** 2).sum(axis=0) * len(scores) / (len(scores) - 1)))
