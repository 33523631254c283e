"""Win probabilities of all models in; intervals, by topic too, and who is significantly better than whom out.

Letters: N queries, M models, P pairs of models. All at once: a loop over models, topics or pairs would cost more than
reading what a user wants.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import special

from crm.report.statistics import Floats, Indices, Interval, holm

Flags = npt.NDArray[np.bool_]
CONSTANT = 1e-12
"""Values that differ by less are one."""
CANCELLED = 1e-3
"""A share of two variances: where the variance of a difference is less, it is summed up from the differences."""
PAIRS_AT_ONCE = 256


def win_rate_intervals(wins: Floats) -> list[Interval]:
    """95 % intervals of the means of ``wins`` (N, M), one a column, none NaN: Student's t, kept within [0, 1].

    Where all of a column are equal (a judge without doubt on few queries) the limits are Wilson's, not a point.
    """
    n, by_model = len(wins), np.ascontiguousarray(wins.T)  # in this order a model's sums do not depend on the others
    mean = by_model.sum(axis=1) / n
    constant = np.ptp(by_model, axis=1) < CONSTANT
    error = np.sqrt((((by_model - mean[:, None]) / n) ** 2).sum(axis=1) * (n / max(n - 1, 1)))
    half = special.stdtrit(max(n - 1, 1), 0.975) * error
    low, high = np.maximum(mean - half, 0.0), np.minimum(mean + half, 1.0)
    if constant.any():
        below, above = wilson(np.clip(mean, 0.0, 1.0), n)
        low, high = np.where(constant, np.minimum(below, mean), low), np.where(constant, np.maximum(above, mean), high)
    columns = (mean.tolist(), error.tolist(), low.tolist(), high.tolist())
    return [Interval(*numbers, n, n) for numbers in zip(*columns, strict=True)]


def wilson(mean: Floats, size: int) -> tuple[Floats, Floats]:
    """95 % limits of proportions (M,) of ``size`` queries: never a point."""
    squared = special.ndtri(0.975) ** 2 / size
    centre = (mean + squared / 2) / (1 + squared)
    half = np.sqrt(mean * (1 - mean) * squared + squared**2 / 4) / (1 + squared)
    return np.maximum(0.0, centre - half), np.minimum(1.0, centre + half)


def topic_intervals(wins: Floats, topics: Sequence[str]) -> list[dict[str, Interval]]:
    """A mapping a column of ``wins`` (N, M): its win rate and interval by topic; ``topics`` (N,) are the queries'."""
    names, number = np.unique(np.array(topics, dtype=object), return_inverse=True)
    found = [win_rate_intervals(wins[number == place]) for place in range(len(names))]
    return [dict(zip(names, column, strict=True)) for column in zip(*found, strict=True)]


def significantly_better(wins: Floats, significance: float) -> Flags:
    """(M, M): is the row's model better than the column's? Paired t-tests over ``wins`` (N, M), none NaN, with Holm's
    correction over all pairs.
    """
    left, right = np.triu_indices(wins.shape[1], k=1)
    significant = holm(pair_p_values(wins, left, right)) < significance
    mean = wins.mean(axis=0)
    ahead = mean[left] > mean[right]
    better = np.zeros((wins.shape[1],) * 2, dtype=np.bool_)
    better[np.where(ahead, left, right)[significant], np.where(ahead, right, left)[significant]] = True
    return better


def pair_p_values(wins: Floats, left: Indices, right: Indices) -> Floats:
    """`paired_p` (P,) of the columns ``left`` less ``right`` of ``wins`` (N, M), by their covariances.

    The variance of a difference is that of both less twice their covariance. Where nearly nothing is left of it,
    rounding would be all there is, and the differences themselves are taken.
    """
    n, mean = len(wins), wins.mean(axis=0)
    centred = wins - mean
    products = centred.T @ centred
    both = products.diagonal()[left] + products.diagonal()[right]
    squares = both - 2 * products[left, right]
    close = (squares <= CANCELLED * both) | (squares <= n * CONSTANT) | (n < 2)
    error = np.sqrt(np.where(close, 1.0, squares) / max(n - 1, 1) / n)
    p = 2 * special.stdtr(max(n - 1, 1), -np.abs((mean[left] - mean[right]) / error))
    places = np.nonzero(close)[0]
    for start in range(0, len(places), PAIRS_AT_ONCE):
        part = places[start : start + PAIRS_AT_ONCE]
        p[part] = paired_p(wins[:, left[part]] - wins[:, right[part]])
    return np.asarray(p)


def paired_p(differences: Floats) -> Floats:
    """Two-sided p-values (P,) of paired differences (N, P), NaN where there is none: as ``scipy.stats.ttest_rel`` of
    every column, all at once. A difference on fewer than two queries, or of nothing, is no evidence; a constant other
    difference is judged by a sign test.
    """
    known = ~np.isnan(differences)
    n = known.sum(axis=0)
    values = np.where(known, differences, 0.0)
    mean = values.sum(axis=0) / np.maximum(n, 1)
    squares = (np.where(known, differences - mean, 0.0) ** 2).sum(axis=0)
    spread = np.where(known, differences, -np.inf).max(axis=0) - np.where(known, differences, np.inf).min(axis=0)
    error = np.sqrt(squares / np.maximum(n - 1, 1) / np.maximum(n, 1))
    constant = spread < CONSTANT
    t = mean / np.where(constant | (error == 0), 1.0, error)
    p = np.where(constant, 2.0 ** (1 - n), 2 * special.stdtr(np.maximum(n - 1, 1), -np.abs(t)))
    return np.where((n < 2) | ~values.any(axis=0), 1.0, p)
