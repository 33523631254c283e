"""Embeddings (n, d) in, a cluster for every row out: k-means, numbered by size, the largest first.

Distinct rows are fitted in the order in which they first occur, each weighted by how often it does, so duplicates share
a label. The order is the caller's: one that is taken from the numbers themselves would turn on their last bits, which
differ between machines and numbers of threads, and k-means would start elsewhere.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from sklearn.cluster import KMeans, MiniBatchKMeans

from crm.criteria.topics.embed import Matrix
from crm.criteria.topics.quality import SAMPLE, row_keys, silhouette

COUNTS = (4, 6, 8, 12, 16, 24)
"""Numbers of clusters that are tried where none is given."""
MANY_ROWS = 10_000
"""More distinct rows than this are fitted in batches, which is faster and a little less exact."""

Labels = npt.NDArray[np.int64]


def cluster(embeddings: Matrix, *, count: int = 0, seed: int = 0) -> Labels:
    """Labels (n,), from 0 for the largest cluster; ``count`` clusters, or with 0 as many as silhouette prefers.

    Of `COUNTS`, the one with the best silhouette (cosine, at most 2,000 distinct rows) is taken; with fewer than
    six distinct rows, all of them are one cluster. In batches a cluster may come out empty; it is then left out.
    Raises ``ValueError`` for a negative count or more clusters than distinct rows.
    """
    _, first, place, weights = np.unique(
        row_keys(embeddings), return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)
    rows, weights, place = embeddings[first[order]], weights[order], np.argsort(order)[place]
    if count < 0 or count > len(rows):
        raise ValueError(
            f"count: {count} topics asked of {len(rows)} distinct texts; give 1 to {len(rows)}, or 0 to choose"
        )
    labels = _fit(rows, weights, count, seed) if count else _choose(rows, weights, seed)
    return _by_size(labels, weights)[place]


def _choose(rows: Matrix, weights: Labels, seed: int) -> Labels:
    best, chosen = -np.inf, np.zeros(len(rows), dtype=np.int64)
    sample = np.random.default_rng(seed).permutation(len(rows))[:SAMPLE]
    for count in COUNTS:
        if count + 2 > len(rows):
            break
        labels = _fit(rows, weights, count, seed)
        score = silhouette(rows[sample], labels[sample])
        if score is not None and score > best:
            best, chosen = score, labels
    return chosen


def _fit(rows: Matrix, weights: Labels, count: int, seed: int) -> Labels:
    if len(rows) > MANY_ROWS:
        model = MiniBatchKMeans(count, n_init=3, batch_size=4096, random_state=seed)
    else:
        model = KMeans(count, n_init=4, random_state=seed)
    return np.asarray(model.fit_predict(rows, sample_weight=weights), dtype=np.int64)


def _by_size(labels: Labels, weights: Labels) -> Labels:
    """Renumber by weight, heaviest first; of two equals, the one that holds the earlier row."""
    values, first, place = np.unique(labels, return_index=True, return_inverse=True)
    order = np.lexsort((first, -np.bincount(place, weights=weights)))
    rank = np.empty(len(values), dtype=np.int64)
    rank[order] = np.arange(len(values))
    return rank[place]
