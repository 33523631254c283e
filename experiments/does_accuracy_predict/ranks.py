"""Rank correlations of many columns at once, and their p-values.

Letters: R rows, each a question of its own; M judges.
"""

from __future__ import annotations

from functools import cache
from itertools import permutations

import numpy as np
from scipy.stats import rankdata

from crm.report.statistics import Floats, Indices

EXACT = 8
"""Judges at most of which every permutation is looked at: 40,320 of 8."""
DRAWS = 9999
"""Permutations that are drawn of more judges."""
ROUNDING = 1e-9
"""Correlations that differ by less are equal."""


def spearman(first: Floats, second: Floats) -> Floats:
    """(R,) Spearman's rho of (R, M) and (R, M); equal values share their ranks; NaN where a row is constant."""
    one, other = _centred(first), _centred(second)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((one * other).sum(axis=-1) / (_norm(one) * _norm(other)))


def kendall(first: Floats, second: Floats) -> Floats:
    """(R,) Kendall's tau-b of (R, M) and (R, M); NaN where a row is constant."""
    above = np.triu_indices(first.shape[-1], 1)
    one, other = (np.sign(values[..., above[0]] - values[..., above[1]]) for values in (first, second))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((one * other).sum(axis=-1) / (_norm(one) * _norm(other)))


def permutation_p(first: Floats, second: Floats, seed: int, draws: int = DRAWS) -> float:
    """Two-sided p of Spearman's rho of (M,) and (M,): the share of permutations with one at least as far from zero.

    Exact for `EXACT` judges or fewer; else (hits + 1) / (draws + 1). NaN where a column is constant.
    """
    one, other = _centred(first), _centred(second)
    size = _norm(one) * _norm(other)
    if not size > 0:
        return float("nan")
    exact = len(one) <= EXACT
    orders = _all_orders(len(one)) if exact else _drawn_orders(len(one), seed, draws)
    far = np.abs(other[orders] @ one) >= np.abs(one @ other) - ROUNDING * size
    return float(far.mean() if exact else (far.sum() + 1) / (draws + 1))


def exact_p(rho: float, models: int) -> float:
    """Two-sided p of a Spearman's rho that was published for so many models without ties, by all permutations.

    ``rho`` is rounded: what differs from it by less than half of its third decimal is as far from zero.
    """
    one = _centred(np.arange(models, dtype=np.float64))
    found = one[_all_orders(models)] @ one / (one @ one)
    return float((np.abs(found) >= abs(rho) - 0.0005).mean())


def _centred(values: Floats) -> Floats:
    ranks = rankdata(values, axis=-1)
    return np.asarray(ranks - ranks.mean(axis=-1, keepdims=True))


def _norm(values: Floats) -> Floats:
    return np.asarray(np.sqrt((values**2).sum(axis=-1)))


@cache
def _all_orders(count: int) -> Indices:
    return np.array(list(permutations(range(count))), dtype=np.int64)


@cache
def _drawn_orders(count: int, seed: int, draws: int) -> Indices:
    random = np.random.default_rng([seed, count])
    return random.permuted(np.tile(np.arange(count), (draws, 1)), axis=1)
