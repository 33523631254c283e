"""How good topics are. In: embeddings and labels, or labels and tags. Out: silhouette; adjusted mutual information.

A document with several tags counts by its first alone: AMI compares groupings, and a grouping has one group a document.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats
from sklearn.metrics import adjusted_mutual_info_score, silhouette_score

from crm.report.statistics import bootstrap_interval

SAMPLE = 2_000
"""Rows that silhouette looks at; it costs their square."""


@dataclass(frozen=True)
class Agreement:
    """Adjusted mutual information (1: same grouping, 0: as by chance) with limits; ``n`` tagged, ``untagged`` not."""

    ami: float
    low: float
    high: float
    n: int
    untagged: int


def silhouette(
    embeddings: npt.NDArray[np.floating], labels: npt.NDArray[np.int64], *, seed: int = 0, sample: int = SAMPLE
) -> float | None:
    """Mean silhouette (Rousseeuw 1987) with cosine distance over at most ``sample`` rows, in [-1, 1].

    None where it has no meaning: fewer than two clusters, or as many as rows. The sample depends on the seed and the
    rows, not on their order.
    """
    keys = np.unique(row_keys(embeddings), return_inverse=True)[1]
    order = np.lexsort((labels, keys))
    if len(order) > sample:
        order = order[np.sort(np.random.default_rng(seed).choice(len(order), sample, replace=False))]
    if not 2 <= len(np.unique(labels[order])) < len(order):
        return None
    return float(silhouette_score(embeddings[order], labels[order], metric="cosine"))


def agreement(
    labels: Sequence[int], tags: Sequence[Sequence[str]], *, seed: int = 0, resamples: int = 300
) -> Agreement:
    """Compare labels with the first tag of every document; documents without a tag are counted and left out.

    AMI as Vinh et al. (2010), arithmetic mean, by scikit-learn. The 95 % interval is the estimate plus and minus 1.96
    standard deviations of the bootstrap. Its percentiles would be wrong: a resample holds documents twice, which agree
    with themselves, so AMI of resamples lies above the truth (0.03 where labels are random).
    Raises ``ValueError`` for lengths that differ or no tagged document.
    """
    if len(labels) != len(tags):
        raise ValueError(f"tags: {len(tags)} for {len(labels)} labels; give one list of tags a document")
    if any(isinstance(own, str) for own in tags):
        raise ValueError("tags: expected a list of tags for every document, got text; write ['tag']")
    tagged = [index for index, own in enumerate(tags) if own]
    if not tagged:
        raise ValueError("tags: no document has any; compare with a set that carries tags")
    ours = np.asarray(labels)[tagged]
    theirs = np.unique([tags[index][0] for index in tagged], return_inverse=True)[1]
    interval = bootstrap_interval(
        lambda rows: float(adjusted_mutual_info_score(theirs[rows], ours[rows])), len(tagged), seed, resamples
    )
    half = float(stats.norm.ppf(0.975)) * interval.standard_error
    return Agreement(interval.mean, interval.mean - half, interval.mean + half, len(tagged), len(tags) - len(tagged))


def row_keys(embeddings: npt.NDArray[np.floating]) -> npt.NDArray[np.void]:
    """Rows as bytes (n,), equal for equal rows: something to sort by that does not depend on where a row stands."""
    rows = np.ascontiguousarray(embeddings + 0.0)  # -0.0 becomes 0.0
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
