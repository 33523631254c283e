"""Means with intervals, calibration, corrected p-values and rank correlation of per-example numbers.

Intervals are clustered: rows that share a prompt are not independent. Letters: N rows, G clusters, M models.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Strata = Sequence[tuple[Any, ...]]
"""(N,) keys, each from the widest to the narrowest."""


@dataclass(frozen=True)
class Interval:
    """A mean, its standard error and confidence limits, all in the unit of the values; ``n`` rows in ``clusters``."""

    mean: float
    standard_error: float
    low: float
    high: float
    n: int
    clusters: int


def cluster_interval(
    values: Sequence[float] | Floats, clusters: Sequence[Any], strata: Strata | None = None
) -> Interval:
    """95 % interval of the mean of ``values`` (N,), each in [0, 1] (0, 0.5 and 1 for a judge's verdicts).

    The standard error is the cluster-robust sandwich. The limits are Wilson's at the effective sample size
    p (1 - p) / se^2, at most N, or G when nothing varies (all correct), so that the interval never has zero width
    (after Korn and Graubard 1998, with Student's t at G - 1 degrees of freedom). With ``strata`` the mean is that over
    the widest of them of the means in them, whatever their sizes.
    Raises ``ValueError`` for no rows, a value outside [0, 1], or lengths that differ.
    """
    data = _column(values)
    if data.min() < 0 or data.max() > 1:
        raise ValueError(f"values: a proportion lies in [0, 1], got {data.min():.4g} to {data.max():.4g}")
    mean, error, groups = _sandwich(data, clusters, strata)
    if error > 1e-12:
        size = min(mean * (1 - mean) / error**2, len(data))
        critical = float(special.stdtrit(groups - 1, 0.975))
    else:
        size, critical = float(groups), float(special.ndtri(0.975))
    low, high = map(float, wilson(mean, size, critical))
    return Interval(mean, error, min(low, mean), max(high, mean), len(data), groups)


def mean_interval(
    values: Sequence[float] | Floats, clusters: Sequence[Any] | None = None, strata: Strata | None = None
) -> Interval:
    """Student's 95 % t interval of the mean of real ``values`` (N,); without ``clusters`` every value is its own.

    A single cluster says nothing about spread: error and limits are NaN. Raises ``ValueError`` for no rows.
    """
    data = _column(values)
    mean, error, groups = _sandwich(data, range(len(data)) if clusters is None else clusters, strata)
    error = error if groups > 1 else float("nan")
    half = float(special.stdtrit(groups - 1, 0.975)) * error
    return Interval(mean, error, mean - half, mean + half, len(data), groups)


def bootstrap_interval(statistic: Callable[[Indices], float], n: int, seed: int, resamples: int = 1000) -> Interval:
    """95 % percentile interval of ``statistic(indices)`` over ``n`` resampled units (queries, prompts).

    ``statistic`` receives indices (n,) drawn with replacement; draws depend on ``seed`` alone. Undefined (NaN)
    resamples are left out.
    """
    generator = np.random.default_rng(seed)
    value = statistic(np.arange(n))
    drawn = np.array([statistic(generator.integers(0, n, n)) for _ in range(resamples)])
    drawn = drawn[~np.isnan(drawn)]
    if len(drawn) < 2:
        return Interval(value, float("nan"), float("nan"), float("nan"), n, n)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Interval(value, float(drawn.std(ddof=1)), float(low), float(high), n, n)


def holm(p_values: Sequence[float] | Floats) -> Floats:
    """Holm's step-down adjusted p-values, in the order given; statsmodels' take 60 ms."""
    raw = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(raw, kind="stable")
    stepped = np.maximum.accumulate(raw[order] * np.arange(len(raw), 0, -1))
    return np.asarray(np.minimum(stepped, 1.0)[np.argsort(order, kind="stable")])


def wilson(mean: Any, size: float, critical: float = 1.959963984540054) -> tuple[Any, Any]:
    """Wilson's limits, 95 % by default, of proportions ``mean`` of ``size`` trials (need not be whole): never a point.

    ``critical`` is the quantile, such as Student's t.
    """
    squared = critical**2 / size
    centre = (mean + squared / 2) / (1 + squared)
    half = np.sqrt(mean * (1 - mean) * squared + squared**2 / 4) / (1 + squared)
    return np.maximum(0.0, centre - half), np.minimum(1.0, centre + half)


def correctness(logits: Sequence[float] | Floats, labels: Sequence[int] | Floats) -> Floats:
    """1 where the sign of the logit (N,) agrees with the label (1: A preferred, 0: B), 0 where not, 0.5 at 0."""
    return np.asarray((np.sign(_signed(logits, labels)) + 1) / 2, dtype=np.float64)


def log_loss(logits: Sequence[float] | Floats, labels: Sequence[int] | Floats) -> Floats:
    """Minus log probability of the label, in nats, per row (N,); stable for large logits."""
    return np.asarray(np.logaddexp(0.0, -_signed(logits, labels)), dtype=np.float64)


def brier(logits: Sequence[float] | Floats, labels: Sequence[int] | Floats) -> Floats:
    """Squared difference of probability and label per row (N,), in [0, 1]."""
    return np.asarray(special.expit(-_signed(logits, labels)) ** 2, dtype=np.float64)


def expected_calibration_error(logits: Sequence[float] | Floats, labels: Sequence[int] | Floats) -> float:
    """Mean gap between confidence max(p, 1-p) and accuracy over ten equal bins of [0.5, 1], weighted by count.

    In [0, 1]. Confidence makes it blind to which response is called A.
    """
    right = correctness(logits, labels)
    confidence = special.expit(np.abs(np.asarray(logits, dtype=np.float64)))
    index = np.minimum(((confidence - 0.5) * 20).astype(int), 9)
    gaps = np.bincount(index, weights=right - confidence)
    return float(np.abs(gaps).sum() / len(right))


def rank_correlation(first: Floats, second: Floats) -> float:
    """Kendall's tau-b, in [-1, 1], of two aligned columns (M,); NaN where one is constant."""
    from scipy import stats  # takes most of a second to load

    # The method concerns the p-value only, which nobody reads here: the exact one is slow in a bootstrap, and the
    # asymptotic one divides by zero for two models.
    method = "asymptotic" if len(first) > 2 else "auto"
    return float(stats.kendalltau(first, second, method=method).statistic)


def _sandwich(data: Floats, clusters: Sequence[Any], strata: Strata | None = None) -> tuple[float, float, int]:
    """Mean, cluster-robust standard error with the G / (G - 1) correction (0 for one cluster), and G.

    A row adds its distance from its own stratum's mean: the difference between strata is no error. A stratum of one
    cluster, such as a user, has no spread of its own: its rows add their distance from the mean of all.
    """
    keys = [()] * len(data) if strata is None else strata
    (stratum, _), (index, groups), weights = _index(keys), _index(clusters), _shares(keys)
    mean = float(data.mean() if strata is None else weights @ data)
    alone = np.bincount(np.unique([stratum, index], axis=1)[0]) == 1
    centres = np.where(alone, mean, np.bincount(stratum, weights=data) / np.bincount(stratum))
    sums = np.bincount(index, weights=weights * (data - centres[stratum]))
    variance = float(sums @ sums) * groups / (groups - 1) if groups > 1 else 0.0
    return mean, float(np.sqrt(variance)), groups


def _shares(strata: Strata) -> Floats:
    """(N,) weights that sum to 1: each stratum shares its own evenly among those in it."""
    within: dict[tuple[Any, ...], set[tuple[Any, ...]]] = defaultdict(set)
    for key in set(strata):
        for level in range(len(key)):
            within[key[:level]].add(key[: level + 1])
    rows = Counter(strata)
    share = {key: math.prod(1 / len(within[key[:level]]) for level in range(len(key))) / rows[key] for key in rows}
    return np.array([share[key] for key in strata])


def _index(keys: Sequence[Any]) -> tuple[Indices, int]:
    """Number the keys by first appearance; the numbers (N,) and how many there are."""
    seen: dict[Any, int] = {}
    return np.array([seen.setdefault(key, len(seen)) for key in keys], dtype=np.int64), len(seen)


def _signed(logits: Sequence[float] | Floats, labels: Sequence[int] | Floats) -> Floats:
    return np.asarray(logits, dtype=np.float64) * (2 * np.asarray(labels, dtype=np.float64) - 1)


def _column(values: Sequence[float] | Floats) -> Floats:
    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or not len(data) or not np.isfinite(data).all():
        raise ValueError(f"values: expected one or more finite numbers in a column, got {data}")
    return data
