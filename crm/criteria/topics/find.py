"""The way in. In: texts and how to group them. Out: `Topics`: a named topic for every text, counts, silhouette."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from crm.criteria.topics.bertopic_backend import bertopic_labels
from crm.criteria.topics.cluster import Labels, cluster
from crm.criteria.topics.embed import Embed, Matrix, make_embedder
from crm.criteria.topics.frame import OTHER, OUTLIERS, Topics
from crm.criteria.topics.keywords import find_keywords, name_clusters
from crm.criteria.topics.quality import silhouette
from crm.criteria.topics.taxonomy import THRESHOLD, assign, described
from crm.criteria.topics.words import distinct

METHODS = ("clusters", "taxonomy", "bertopic")

Names = Sequence[str] | Mapping[str, str]


def find_topics(
    texts: Sequence[str],
    *,
    method: str = "clusters",
    embedder: str = "tfidf",
    model: str | None = None,
    count: int = 0,
    seed: int = 0,
    names: Names | None = None,
    threshold: float = THRESHOLD,
) -> Topics:
    """One topic for each of ``texts`` (at least one), by ``method``, one of `METHODS`.

    ``clusters`` (k-means) and ``bertopic`` find ``count`` topics, or with 0 as many as fit; ``taxonomy`` takes the
    nearest of ``names`` (with descriptions where it is a mapping; default: the paper's twelve), or `OTHER` where no
    cosine similarity is above ``threshold``. ``embedder`` is ``tfidf``, or ``sentence_transformers`` with ``model``, a
    local folder or hub id. Rows in another order get the same topics.
    Raises ``ValueError`` for no texts, settings that do not go together, or an extra that is not installed.
    """
    embed = make_embedder(embedder, model=model, seed=seed)
    return topics_with(embed, texts, method=method, count=count, seed=seed, names=names, threshold=threshold)


def topics_with(
    embed: Embed,
    texts: Sequence[str],
    *,
    method: str,
    count: int = 0,
    seed: int = 0,
    names: Names | None = None,
    threshold: float = THRESHOLD,
) -> Topics:
    """As `find_topics`, with an embedder of the caller's: texts in, rows of length 1 (or 0) out, shape (n, d)."""
    if method not in METHODS:
        raise ValueError(f"method: {method!r} is not one of {', '.join(METHODS)}")
    if method == "taxonomy":
        if count:
            raise ValueError(
                f"count: {count} has no meaning for method taxonomy, its names say how many; leave it at 0"
            )
        taxonomy = described(names)
        distinct(texts)  # refuses what is not a list of texts before anything is embedded
        labels, vectors = assign(texts, taxonomy, embed, threshold=threshold)
        return _topics(texts, labels, vectors, seed, rest=OTHER, fixed=tuple(taxonomy))
    if names is not None:
        raise ValueError(f"names: method {method} finds its own; leave them out or take method taxonomy")
    vectors = embed(texts)
    if method == "bertopic":
        labels = bertopic_labels(texts, vectors, count=count, seed=seed)
        return _topics(texts, labels, vectors, seed, rest=OUTLIERS)
    order = np.argsort(distinct(texts).place, kind="stable")  # by text: the same on every machine
    labels = np.empty(len(order), dtype=np.int64)
    labels[order] = cluster(vectors[order], count=count, seed=seed)
    return _topics(texts, labels, vectors, seed, rest=OTHER)


def _topics(
    texts: Sequence[str], labels: Labels, vectors: Matrix, seed: int, *, rest: str, fixed: tuple[str, ...] = ()
) -> Topics:
    """Keywords, names and counts; texts without a topic (label -1) become a last one called ``rest``."""
    known = labels >= 0
    topics = len(fixed) or int(labels.max()) + 1
    final: list[int] = np.where(known, labels, topics).tolist()
    keywords = find_keywords(texts, final, topics + (not known.all()))
    names = fixed or name_clusters(keywords[:topics])
    return Topics(
        texts=tuple(texts),
        labels=tuple(final),
        names=names if known.all() else (*names, rest),
        keywords=keywords,
        silhouette=silhouette(vectors[known], labels[known], seed=seed) if known.any() else None,
        counts={
            "texts": len(texts),
            "distinct": len(set(texts)),
            "without_words": int((~vectors.any(axis=1)).sum()),
            rest.casefold(): int((~known).sum()),
        },
    )
