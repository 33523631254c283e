"""Matches in; two fitted views of the same leaderboard out: Bradley-Terry strengths and length-controlled win rates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from scipy import optimize, special

from crm.report.statistics import Floats, Indices
from crm.schema import Match

LIMIT = 20.0
"""Largest strength in nats that a fit may reach; a model that always wins would otherwise run to infinity."""


def bradley_terry(matches: Sequence[Match]) -> tuple[dict[str, float], str]:
    """Strengths in nats, baseline 0, from pair probabilities; and which pairs were used, ``all`` or ``baseline``.

    Where every match that was read carries both scores, all pairs of models are read on each query (sigmoid of the
    score difference); otherwise each candidate meets the baseline only, and its strength is the logit of its win rate.
    A model that could not be read on a query has lost there to everybody who could.
    """
    baseline = matches[0].baseline
    names = [baseline, *sorted({match.candidate for match in matches})]
    number = {name: index for index, name in enumerate(names)}
    read = [match for match in matches if match.preference_logit is not None]
    scored = all(match.score_candidate is not None and match.score_baseline is not None for match in read)
    if scored:
        won, met = _all_pairs(matches, number)
    else:
        won, met = np.zeros((len(names), len(names))), np.zeros((len(names), len(names)))
        for match in matches:
            row = number[match.candidate]
            won[row, 0] += match.win
            met[row, 0] += 1
    strengths = _fit_pairs(won, met)
    return dict(zip(names, strengths.tolist(), strict=True)), "all" if scored else "baseline"


def elo(strength: float) -> float:
    """A strength in nats on the customary scale: the baseline stands at 1000, 400 points are odds of ten to one."""
    return 1000 + 400 / float(np.log(10)) * strength


def _all_pairs(matches: Sequence[Match], number: dict[str, int]) -> tuple[Floats, Floats]:
    """Expected wins and meetings (M, M), filled for row > column, over the queries that both models answered.

    A query's baseline score is averaged over its matches: batching may move it in the last digits.
    """
    queries = {query: index for index, query in enumerate(dict.fromkeys(match.query_id for match in matches))}
    total, seen = (np.zeros((len(queries), len(number))) for _ in range(2))
    for match in matches:
        row = queries[match.query_id]
        if match.preference_logit is None:
            total[row, number[match.candidate]] = -np.inf  # below every score; two of them do not meet
            seen[row, number[match.candidate]] = 1
            continue
        for name, score in ((match.candidate, match.score_candidate), (match.baseline, match.score_baseline)):
            total[row, number[name]] += score or 0.0
            seen[row, number[name]] += 1
    scores = np.where(seen > 0, total / np.maximum(seen, 1), np.nan)
    won, met = (np.zeros((len(number), len(number))) for _ in range(2))
    for row in range(len(number)):
        for column in range(row):
            with np.errstate(invalid="ignore"):  # infinity minus infinity is the NaN that is meant
                chance = special.expit(scores[:, row] - scores[:, column])
            won[row, column], met[row, column] = np.nansum(chance), np.count_nonzero(~np.isnan(chance))
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


def length_controlled(matches: Sequence[Match]) -> tuple[dict[str, float], float]:
    """Win rate, in [0, 1], that each candidate would have at the baseline's length; and the length coefficient.

    Fractional logistic regression P = sigmoid(theta_m + beta tanh(d / std(d))), d the difference in words, one beta
    for all models; the rate is sigmoid(theta_m). After AlpacaEval 2 LC (Dubois et al. 2024, arXiv 2404.04475), without
    its per-query difficulty. A bank where no lengths differ has beta = 0, and the raw win rates. It is fitted to what
    was read; queries on which a model could not be read are lost whatever their length, and its rate falls by their
    share. Raises ``ValueError`` where nothing was read.
    """
    asked = Counter(match.candidate for match in matches)
    matches = [match for match in matches if match.preference_logit is not None]
    if not matches:
        raise ValueError("matches: the judge read none of them, so that there is nothing to fit")
    known = Counter(match.candidate for match in matches)
    names = sorted(known)
    number = {name: index for index, name in enumerate(names)}
    model: Indices = np.array([number[match.candidate] for match in matches], dtype=np.int64)
    target = np.array([match.win for match in matches], dtype=np.float64)
    words = np.array([match.length_candidate - match.length_baseline for match in matches], dtype=np.float64)
    spread = words.std()
    length = np.tanh(words / spread) if spread > 0 else np.zeros_like(words)

    def loss(free: Floats) -> tuple[float, Floats]:
        logit = free[model] + free[-1] * length
        # The faint penalty decides beta only where lengths do not vary within any model.
        value = (np.logaddexp(0, logit) - target * logit).mean() + 1e-7 * free[-1] ** 2
        slope = (special.expit(logit) - target) / len(logit)
        gradient = np.append(np.bincount(model, slope, len(names)), slope @ length + 2e-7 * free[-1])
        return float(value), gradient

    fitted = _minimise(loss, len(names) + 1)
    rates = dict(zip(names, special.expit(fitted[:-1]).tolist(), strict=True))
    return {name: rates.get(name, 0.0) * known[name] / asked[name] for name in sorted(asked)}, float(fitted[-1])


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
