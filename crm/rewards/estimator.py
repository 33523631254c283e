"""The unbiased estimator of Best-of-k, over all subsets of k among n scored responses.

Best-of-k draws k of the n responses and takes the one with the highest score. The i-th lowest score is the highest of
a subset in C(i-1, k-1) of C(n, k) cases; equal scores share theirs. A response whose score is NaN is left out, and a
query with fewer than k left has NaN. Letters: Q queries, K values of k, n responses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def sizes(largest: int) -> tuple[int, ...]:
    """The values of k to show: powers of two up to ``largest`` (1 or more), and ``largest`` itself."""
    if largest < 1:
        raise ValueError(f"max_k={largest}: expected 1 or more")
    return (*(2**power for power in range((largest - 1).bit_length())), largest)


def reached(known: Floats) -> int:
    """The largest k, 1 or more, for which at least 9 of 10 queries have responses: numbers of ``known`` (Q, n)."""
    counts = (~np.isnan(known)).sum(axis=1)
    return max(1, int(np.quantile(counts, 0.1, method="lower")))


def best_of_k(scores: Floats, ks: Sequence[int]) -> Floats:
    """(Q, K, n) probability that a response is the best of k drawn without replacement, from ``scores`` (Q, n)."""
    return np.stack([_of_query(row, ks) for row in np.asarray(scores, dtype=np.float64)])


def expected(picked: Floats, values: Floats) -> Floats:
    """(Q, K) expected value of the pick, of ``picked`` (Q, K, n) and ``values`` (Q, n).

    NaN for a query with fewer than k responses, and where a possible pick has no value.
    """
    unknown = np.isnan(values)
    found = np.einsum("qkn,qn->qk", picked, np.where(unknown, 0, values))
    hidden = np.einsum("qkn,qn->qk", picked, unknown.astype(np.float64))
    return np.where(hidden > 0, np.nan, found)


def kl_bound(k: int) -> float:
    """Nats by which best-of-k differs from a single draw, at most: log k - (k - 1) / k."""
    return math.log(k) - (k - 1) / k


def _of_query(row: Floats, ks: Sequence[int]) -> Floats:
    """(K, n) of one query."""
    picked = np.full((len(ks), len(row)), np.nan)
    read = np.flatnonzero(~np.isnan(row))
    order = read[np.argsort(row[read], kind="stable")]
    _, block, counts = np.unique(row[order], return_inverse=True, return_counts=True)
    for place, k in enumerate(ks):
        if k <= len(order):
            picked[place] = 0
            shares = np.bincount(block, _highest(len(order), k)) / counts
            picked[place, order] = shares[block]
    return picked


def _highest(n: int, k: int) -> Floats:
    """(n,) C(i-1, k-1) / C(n, k) for i from 1 to n: how often the i-th lowest of n is the highest of k."""
    place = np.arange(n, 1, -1)
    falling = np.cumprod(np.concatenate([[k / n], (place - k).clip(0) / (place - 1)]))
    return np.asarray(falling[::-1])
