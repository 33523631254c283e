"""Which of k responses a reward picks. In: scores of n responses to each query. Out: how likely each is the pick.

Best-of-k draws k of the n responses and takes the one with the highest score. Its expected gold value has an unbiased
estimate that uses every subset of k at once: the i-th lowest score is the highest of a subset in C(i-1, k-1) of C(n, k)
cases. Equal scores share what they have together. Letters: Q queries, K values of k, n responses.

A response whose score is NaN was not read: it is left out, as if it had never been sampled. Where fewer than k are
left, a query says nothing about k: its row is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def sizes(largest: int) -> tuple[int, ...]:
    """The values of k that are shown: powers of two up to ``largest`` (1 or more), and ``largest`` itself."""
    if largest < 1:
        raise ValueError(f"max_k={largest}: expected 1 or more")
    return (*(2**power for power in range((largest - 1).bit_length())), largest)


def reached(known: Floats) -> int:
    """The largest k for which 9 queries of 10, at least, have responses: numbers of ``known`` (Q, n); 1 or more.

    A larger one would be about few queries.
    """
    counts = (~np.isnan(known)).sum(axis=1)
    return max(1, int(np.quantile(counts, 0.1, method="lower")))


def best_of_k(scores: Floats, ks: Sequence[int]) -> Floats:
    """(Q, K, n) probability that a response is the best of k drawn without replacement, from ``scores`` (Q, n)."""
    return np.stack([_of_query(row, ks) for row in np.asarray(scores, dtype=np.float64)])


def first_k(scores: Floats, ks: Sequence[int]) -> Floats:
    """(Q, K, n), one response each: the best of the first k that were read, the earlier one of two equals.

    Biased by the order of the responses, and its values for several k share responses: to compare with procedures that
    do so, as Personalized RewardBench's.
    """
    picked = np.full((len(scores), len(ks), scores.shape[1]), np.nan)
    for row, own in zip(scores, picked, strict=True):
        read = np.flatnonzero(~np.isnan(row))
        for place, k in enumerate(ks):
            if k <= len(read):
                own[place] = 0
                own[place, read[:k][np.argmax(row[read[:k]])]] = 1
    return picked


def soft_best_of_k(scores: Floats, ks: Sequence[int], *, temperature: float, seed: int, draws: int = 64) -> Floats:
    """(Q, K, n): from k drawn responses one is taken with a probability in proportion to exp(score / temperature).

    A softmax over a subset has no closed sum over all subsets. This is the mean over ``draws`` random orders of the
    responses, each cut into subsets of k that do not overlap: unbiased, exact where k is 1 or n, and the same for the
    same seed.
    """
    if not temperature > 0:
        raise ValueError(f"temperature={temperature}: expected a number above 0; the best of k needs none")
    random = np.random.default_rng(seed)
    picked = np.full((len(scores), len(ks), scores.shape[1]), np.nan)
    for row, own in zip(scores, picked, strict=True):
        read = np.flatnonzero(~np.isnan(row))
        scaled = row[read] / temperature
        orders = random.permuted(np.tile(np.arange(len(read)), (draws, 1)), axis=1)
        for place, k in enumerate(ks):
            if k <= len(read):
                subsets = orders[:, : len(read) // k * k].reshape(-1, k)
                shares = _softmax(scaled[subsets]) / len(subsets)
                own[place] = 0
                own[place, read] = np.bincount(subsets.ravel(), shares.ravel(), len(read))
    return picked


def expected(picked: Floats, values: Floats) -> Floats:
    """(Q, K) expected value of the pick, of ``picked`` (Q, K, n) and ``values`` (Q, n).

    NaN where a query says nothing about k, or a response that may be the pick has no value.
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


def _softmax(rows: Floats) -> Floats:
    powers = np.exp(rows - rows.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
