"""BERTopic (Grootendorst 2022) as one more way to group. In: texts and their embeddings. Out: a label a text, -1: none.

Nothing is downloaded: embeddings come from `topics.embed`. UMAP is seeded, which makes it run on one thread.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from crm.criteria.topics.embed import Matrix
from crm.criteria.topics.extras import require
from crm.criteria.topics.words import STOP_WORDS, WORD_PATTERN, distinct

MIN_TEXTS = 20
OUTLIER = -1


def bertopic_labels(
    texts: Sequence[str], embeddings: Matrix, *, count: int = 0, seed: int = 0, min_size: int | None = None
) -> npt.NDArray[np.int64]:
    """Labels (n,), from 0 for the largest topic, -1 for outliers, over distinct texts in sorted order.

    ``count`` is the number of topics after merging similar ones (outliers apart), 0 keeps what HDBSCAN found; fewer may
    exist. ``min_size`` is the smallest topic in distinct texts (default: a hundredth of them, 5 to 50).
    Raises ``ValueError`` for fewer than `MIN_TEXTS` distinct texts, a negative count, or the package missing.
    """
    rows = distinct(texts)
    if len(rows.texts) < MIN_TEXTS:
        raise ValueError(
            f"texts: bertopic needs at least {MIN_TEXTS} distinct ones, got {len(rows.texts)}; use method clusters"
        )
    if count < 0:
        raise ValueError(f"count: {count} topics cannot be; give a positive number, or 0 to choose")
    first = np.unique(rows.place, return_index=True)[1]
    size = min_size or min(50, max(5, len(rows.texts) // 100))
    labels = _fit(rows.texts, embeddings[first], count, seed, size)
    return _by_size(labels[rows.place])


def _fit(texts: list[str], embeddings: Matrix, count: int, seed: int, min_size: int) -> npt.NDArray[np.int64]:
    bertopic = require("bertopic", "bertopic")
    umap = require("umap", "bertopic")
    hdbscan = require("hdbscan", "bertopic")
    vectorizer = require("sklearn.feature_extraction.text", "bertopic").CountVectorizer
    model = bertopic.BERTopic(
        umap_model=umap.UMAP(
            n_neighbors=min(15, len(texts) - 1),
            n_components=5,
            min_dist=0.0,
            metric="cosine",
            random_state=seed,
            n_jobs=1,
        ),
        hdbscan_model=hdbscan.HDBSCAN(min_cluster_size=min_size, core_dist_n_jobs=1),
        vectorizer_model=vectorizer(token_pattern=WORD_PATTERN, stop_words=STOP_WORDS),
    )
    labels, _ = model.fit_transform(texts, embeddings)
    found = len(set(labels) - {OUTLIER})
    if 0 < count < found:
        # BERTopic counts the outliers as one of the topics to keep.
        labels = model.reduce_topics(texts, nr_topics=count + (OUTLIER in labels)).topics_
    return np.asarray(labels, dtype=np.int64)


def _by_size(labels: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Renumber topics by texts, largest first, equals as they were; outliers stay -1."""
    values, sizes = np.unique(labels[labels != OUTLIER], return_counts=True)
    rank = {int(value): index for index, value in enumerate(values[np.argsort(-sizes, kind="stable")])}
    return np.array([rank.get(int(label), OUTLIER) for label in labels], dtype=np.int64)
