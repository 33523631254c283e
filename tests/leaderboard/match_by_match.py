"""Rankings of plain matches, one model, pair and topic after the other: the second route to what arrays give."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from scipy import optimize, special, stats

from crm.report.statistics import Interval, cluster_interval, holm, mean_interval
from crm.schema import Match


def rates(matches: Sequence[Match]) -> dict[str, dict[str, float]]:
    """Win probabilities by model and query, the baseline among them."""
    found: dict[str, dict[str, float]] = {matches[0].baseline: {match.query_id: 0.5 for match in matches}}
    for match in matches:
        found.setdefault(match.candidate, {})[match.query_id] = match.win
    return found


def interval(values: Sequence[float]) -> Interval:
    if max(values) - min(values) < 1e-12:
        return cluster_interval(values, range(len(values)))
    got = mean_interval(values)
    return Interval(got.mean, got.standard_error, max(0.0, got.low), min(1.0, got.high), got.n, got.clusters)


def by_topic(matches: Sequence[Match], model: str) -> dict[str, Interval]:
    own = [match for match in matches if match.candidate == model]
    topics = sorted({match.topic for match in own})
    return {topic: interval([match.win for match in own if match.topic == topic]) for topic in topics}


def mean_words(matches: Sequence[Match], model: str) -> float:
    lengths = {match.query_id: match.length_candidate for match in matches if match.candidate == model}
    if model == matches[0].baseline:
        lengths = {match.query_id: match.length_baseline for match in matches}
    return float(np.mean(list(lengths.values())))


def better_pairs(matches: Sequence[Match], significance: float = 0.05) -> set[tuple[str, str]]:
    """(better, worse), by a paired test after the other and Holm's correction."""
    table = rates(matches)
    pairs = list(itertools.combinations(sorted(table), 2))
    gaps = [np.array([table[one][query] - table[two][query] for query in table[one]]) for one, two in pairs]
    adjusted = holm([_p(gap) for gap in gaps])
    return {
        (one, two) if gap.mean() > 0 else (two, one)
        for (one, two), gap, p in zip(pairs, gaps, adjusted, strict=True)
        if p < significance
    }


def _p(gap: np.ndarray) -> float:
    if len(gap) < 2 or not gap.any():
        return 1.0
    return 2.0 ** (1 - len(gap)) if np.ptp(gap) < 1e-12 else float(stats.ttest_1samp(gap, 0.0).pvalue)


def meetings(matches: Sequence[Match], names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Expected wins and meetings (M, M), for row > column, of the scores of all pairs, query by query."""
    won, met = np.zeros((len(names),) * 2), np.zeros((len(names),) * 2)
    for query in sorted({match.query_id for match in matches}):
        scores = {}
        for match in matches:
            if match.query_id == query:
                scores[match.candidate] = -np.inf if match.score_candidate is None else match.score_candidate
                if match.score_baseline is not None:
                    scores[match.baseline] = match.score_baseline
        for row, column in itertools.product(range(len(names)), repeat=2):
            one, two = scores.get(names[row], np.nan), scores.get(names[column], np.nan)
            if row > column and not (np.isnan(one) or np.isnan(two) or one == two == -np.inf):
                won[row, column] += special.expit(one - two)
                met[row, column] += 1
    return won, met


def length_controlled(matches: Sequence[Match]) -> tuple[dict[str, float], float]:
    """Rates at the baseline's length and the coefficient, by a general minimiser over single matches."""
    read = [match for match in matches if match.preference_logit is not None]
    names = sorted({match.candidate for match in read})
    number = np.array([names.index(match.candidate) for match in read])
    wins = np.array([match.win for match in read])
    extra = np.array([match.length_candidate - match.length_baseline for match in read], dtype=float)
    length = np.tanh(extra / extra.std()) if extra.std() else 0 * extra

    def loss(free: np.ndarray) -> tuple[float, np.ndarray]:
        logit = free[number] + free[-1] * length
        slope = (special.expit(logit) - wins) / len(wins)
        gradient = np.append(np.bincount(number, slope, len(names)), slope @ length + 2e-7 * free[-1])
        return (np.logaddexp(0, logit) - wins * logit).mean() + 1e-7 * free[-1] ** 2, gradient

    options = {"ftol": 1e-15, "gtol": 1e-11, "maxiter": 10_000, "maxfun": 100_000}
    bounds = [(-20.0, 20.0)] * (len(names) + 1)
    start = np.zeros(len(names) + 1)
    found = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    share = {
        name: sum(match.candidate == name for match in read) / sum(match.candidate == name for match in matches)
        for name in names
    }
    return {name: special.expit(found[names.index(name)]) * share[name] for name in names}, float(found[-1])
