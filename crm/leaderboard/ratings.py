"""Outcomes in; two fitted views of the same leaderboard out: Bradley-Terry strengths and length-controlled win rates.

Letters: Q queries, M models with the baseline among them, C = M - 1 candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from crm.leaderboard.outcomes import Flags, Outcomes, of_matches
from crm.leaderboard.win_statistics import wilson
from crm.report.statistics import Floats
from crm.schema import Match

LIMIT = 20.0
"""Largest strength in nats that a fit may reach; a model that always wins would otherwise run to infinity."""
FAR = 14.0
"""Nats from which on a fit has no finite end (a model that always wins): it stops somewhere below `LIMIT`."""
SAME_LENGTH = 0.01
"""Share of the squared length differences within models below which length and model cannot be told apart."""
STEPS = 50
"""Of Newton's method; ten are many."""


def bradley_terry(matches: Sequence[Match] | Outcomes) -> tuple[dict[str, float], str]:
    """Strengths in nats, baseline 0, from pair probabilities; and which pairs were used, ``all`` or ``baseline``.

    Where every match that was read carries both scores, all pairs of models are read on each query (sigmoid of the
    score difference); otherwise each candidate meets the baseline only, and its strength is the logit of its win rate.
    A model that could not be read on a query has lost there to everybody who could.
    """
    outcomes = matches if isinstance(matches, Outcomes) else of_matches(matches)
    names = [outcomes.baseline, *outcomes.models[:-1]]
    if outcomes.scores is not None:
        won, met = _all_pairs(np.roll(outcomes.scores, 1, axis=1))
    else:
        won, met = np.zeros((len(names), len(names))), np.zeros((len(names), len(names)))
        won[1:, 0] = np.nansum(outcomes.wins[:, :-1], axis=0)
        met[1:, 0] = outcomes.answered[:, :-1].sum(axis=0)
    strengths = _fit_pairs(won, met)
    return dict(zip(names, strengths.tolist(), strict=True)), "all" if outcomes.scores is not None else "baseline"


def bound(strength: float) -> str:
    """What a fitted strength is where it has no finite value: ``at least`` or ``at most``; else nothing."""
    return "" if abs(strength) < FAR else "at least" if strength > 0 else "at most"


def elo(strength: float) -> float:
    """A strength in nats on the customary scale: the baseline stands at 1000, 400 points are odds of ten to one."""
    return 1000 + 400 / float(np.log(10)) * strength


def _all_pairs(scores: Floats) -> tuple[Floats, Floats]:
    """Expected wins and meetings (M, M), filled for row > column, over the queries that both models answered.

    ``scores`` (Q, M): minus infinity, where the judge could not read, is below every score; two of them do not meet.
    """
    by_model = np.ascontiguousarray(scores.T)
    won, met = (np.zeros((len(by_model), len(by_model))) for _ in range(2))
    for row in range(1, len(by_model)):
        with np.errstate(invalid="ignore"):  # infinity minus infinity is the NaN that is meant
            chance = special.expit(by_model[row] - by_model[:row])
        won[row, :row], met[row, :row] = np.nansum(chance, axis=1), np.count_nonzero(~np.isnan(chance), axis=1)
    return won, met


def _fit_pairs(won: Floats, met: Floats) -> Floats:
    """Maximum likelihood strengths (M,) with the first held at 0, from fractional wins of row over column."""
    row, column = np.nonzero(met)
    wins, games = won[row, column], met[row, column]

    def loss(free: Floats) -> tuple[float, Floats]:
        strengths = np.concatenate([[0.0], free])
        difference = strengths[row] - strengths[column]
        value = (games * np.logaddexp(0, difference) - wins * difference).sum()
        slope = games * special.expit(difference) - wins
        size = len(won)
        gradient = np.bincount(row, slope, size) - np.bincount(column, slope, size)
        return float(value / games.sum()), gradient[1:] / games.sum()

    return np.concatenate([[0.0], _minimise(loss, len(won) - 1)])


@dataclass(frozen=True)
class LengthControl:
    """`length_controlled` with 95 % limits, by model; NaN where the data do not determine it, and ``why``."""

    rates: dict[str, float]
    low: dict[str, float]
    high: dict[str, float]
    coefficient: float
    why: str = ""


def length_control(outcomes: Outcomes) -> LengthControl:
    """Length-controlled win rates with 95 % limits over queries.

    Limits are clustered by query: the sandwich of the fit's scores, with Student's t on the scale of theta. (On 10 to
    50 queries they hold the truth 94 to 98 times of 100; those of a percentile bootstrap 82 to 92 times.) Nothing is
    determined where lengths hardly differ within any model, the coefficient has no finite value, or there is one
    query; a model that always wins or loses has no rate of its own either.
    """
    names = outcomes.models[:-1]
    theta, beta, length, read = _fit(outcomes)
    unknown = dict.fromkeys(names, np.nan)
    why = _undetermined(outcomes, beta, length, read)
    if why:
        return LengthControl(unknown, unknown, unknown, float("nan"), why)
    error = _errors(np.where(read, outcomes.wins[:, :-1], 0.0), theta, beta, length, read)
    half = special.stdtrit(len(length) - 1, 0.975) * error
    rate, low, high = special.expit(theta), special.expit(theta - half), special.expit(theta + half)
    floor, ceiling = wilson(rate, len(length))
    constant = error * rate * (1 - rate) < 1e-9  # no residual: as `win_rate_intervals` of equal values
    low, high = np.where(constant, np.minimum(floor, rate), low), np.where(constant, np.maximum(ceiling, rate), high)
    share = read.sum(axis=0) / outcomes.answered[:, :-1].sum(axis=0)
    far = np.abs(theta) >= FAR
    columns = [dict(zip(names, np.where(far, np.nan, one * share).tolist(), strict=True)) for one in (rate, low, high)]
    always = ", ".join(name for name, one in zip(names, far, strict=True) if one)
    why = f"length control is not determined for {always}: always won or always lost" if always else ""
    return LengthControl(columns[0], columns[1], columns[2], beta, why)


def _undetermined(outcomes: Outcomes, beta: float, length: Floats, read: Flags) -> str:
    """Why the effect of length cannot be told from that of the models; empty where it can."""
    reason = ""
    extra = np.where(read, outcomes.words[:, :-1] - outcomes.words[:, -1:], 0.0)
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
    errors: Floats = np.sqrt((moved[:, :-1] ** 2).sum(axis=0) * len(scores) / (len(scores) - 1))
    return errors


def length_controlled(matches: Sequence[Match] | Outcomes) -> tuple[dict[str, float], float]:
    """Win rate, in [0, 1], that each candidate would have at the baseline's length; and the length coefficient.

    Fractional logistic regression P = sigmoid(theta_m + beta tanh(d / std(d))), d the difference in words, one beta
    for all models; the rate is sigmoid(theta_m). After AlpacaEval 2 LC (Dubois et al. 2024, arXiv 2404.04475), without
    its per-query difficulty. A bank where no lengths differ has beta = 0, and the raw win rates. It is fitted to what
    was read; queries on which a model could not be read are lost whatever their length, and its rate falls by their
    share. Raises ``ValueError`` where nothing was read.
    """
    outcomes = matches if isinstance(matches, Outcomes) else of_matches(matches)
    theta, beta, _, read = _fit(outcomes)
    share = read.sum(axis=0) / outcomes.answered[:, :-1].sum(axis=0)
    return dict(zip(outcomes.models[:-1], (special.expit(theta) * share).tolist(), strict=True)), beta


def _fit(outcomes: Outcomes) -> tuple[Floats, float, Floats, Flags]:
    """Strengths (C,), coefficient, length differences as they enter the fit (Q, C), and what was read (Q, C)."""
    read = np.asarray(~np.isnan(outcomes.logits[:, :-1]))
    if not read.any():
        raise ValueError("matches: the judge read none of them, so that there is nothing to fit")
    words = outcomes.words[:, :-1] - outcomes.words[:, -1:]
    spread = words[read].std()
    length = np.where(read, np.tanh(words / spread), 0.0) if spread > 0 else np.zeros_like(words)
    theta, beta = _fit_lengths(np.where(read, outcomes.wins[:, :-1], 0.0), length, read)
    return theta, beta, length, read


def _fit_lengths(target: Floats, length: Floats, read: Flags) -> tuple[Floats, float]:
    """The likeliest strengths (C,) and length coefficient of ``target`` at ``length``, where ``read``, each (Q, C).

    Newton's method: strengths touch each other through the coefficient alone, so that a step is a few sums. Where it
    does not settle inside the limits (a model that always wins), `_minimise` finds the edge.
    """
    count, faint = read.sum(), 1e-7  # the faint penalty decides beta only where lengths do not vary within any model
    theta, beta = np.zeros(target.shape[1]), 0.0
    for _ in range(STEPS):
        chance = np.where(read, special.expit(theta + beta * length), 0.0)
        slope, weight = chance - target, chance * (1 - chance)
        own, across = weight.sum(axis=0), (weight * length).sum(axis=0)
        own_slope = slope.sum(axis=0)
        # The Hessian is diagonal but for one row; that row is solved first.
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = across / own
            left = (weight * length**2).sum() + 2 * faint * count - ratio @ across
            by = -((slope * length).sum() + 2 * faint * count * beta - ratio @ own_slope) / left
            move = -own_slope / own - ratio * by
        theta, beta = theta + move, float(beta + by)
        if not np.isfinite(theta).all() or max(np.abs(theta).max(), abs(beta)) > LIMIT:
            break
        if max(np.abs(move).max(), abs(by)) < 1e-10:
            return theta, beta
    return _fit_lengths_in_limits(target, length, read, faint)


def _fit_lengths_in_limits(target: Floats, length: Floats, read: Flags, faint: float) -> tuple[Floats, float]:
    """As `_fit_lengths`, slower, within [-LIMIT, LIMIT]."""
    count = read.sum()

    def loss(free: Floats) -> tuple[float, Floats]:
        logit = free[:-1] + free[-1] * length
        value = np.where(read, np.logaddexp(0, logit) - target * logit, 0.0).sum() / count + faint * free[-1] ** 2
        slope = np.where(read, special.expit(logit) - target, 0.0) / count
        return float(value), np.append(slope.sum(axis=0), (slope * length).sum() + 2 * faint * free[-1])

    fitted = _minimise(loss, target.shape[1] + 1)
    return fitted[:-1], float(fitted[-1])


def _minimise(loss: object, size: int) -> Floats:
    """Minimum of a convex ``loss(x) -> (value, gradient)`` over the box [-LIMIT, LIMIT]^size."""
    found = optimize.minimize(
        loss,
        np.zeros(size),
        jac=True,
        method="L-BFGS-B",
        bounds=[(-LIMIT, LIMIT)] * size,
        options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 10_000, "maxfun": 100_000},
    )
    return np.asarray(found.x, dtype=np.float64)
