"""Topics of texts: sentence embeddings, k-means, and names from class-based TF-IDF."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.metrics import silhouette_score
from sklearn.preprocessing import normalize

COUNTS = (4, 6, 8, 12, 16, 24)
"""Numbers of topics to try where none is given; the one with the best silhouette is taken."""
DIMENSIONS = 100
"""Of the TF-IDF embedding, after latent semantic analysis."""
MANY_TEXTS = 10_000
"""Distinct texts above which k-means runs in mini-batches."""
KEYWORDS, NAME_WORDS = 10, 3

Vectors = npt.NDArray[np.floating]
Labels = npt.NDArray[np.int64]


def find_topics(
    texts: Sequence[str], *, model: str | None = None, count: int = 0, seed: int = 0
) -> tuple[dict[str, str], pd.DataFrame]:
    """Group at least one text into ``count`` topics (0: chosen among `COUNTS`), named after their keywords.

    Gives the name of each text's topic, and a row per topic, the largest first: ``topic``, distinct ``texts``,
    ``keywords``.

    ``model`` is a sentence-transformers model, a folder or hub id; without one the texts are embedded by TF-IDF.
    Raises ``ValueError`` for no texts, more topics than distinct texts, or a model that cannot be loaded.
    """
    distinct = sorted(set(texts))
    if not 0 <= count <= len(distinct) or not distinct:
        raise ValueError(f"count: {count} topics of {len(distinct)} distinct texts; give fewer topics or more texts")
    found = _cluster(embed(distinct, model=model, seed=seed), count, seed)
    order = np.argsort(-np.bincount(found), kind="stable")
    labels: list[int] = np.argsort(order)[found].tolist()
    keywords = _keywords(distinct, labels, len(order))
    names, sizes = _names(keywords), np.bincount(labels)
    table = pd.DataFrame({"topic": names, "texts": sizes, "keywords": [", ".join(words) for words in keywords]})
    return {text: names[label] for text, label in zip(distinct, labels, strict=True)}, table


def embed(texts: Sequence[str], *, model: str | None = None, seed: int = 0) -> Vectors:
    """Embeddings (n, d) with rows of length 1, or 0 for a text without words (TF-IDF)."""
    if model:
        try:
            from sentence_transformers import SentenceTransformer  # an extra, and it imports torch
        except ImportError as error:
            raise ValueError(
                f"sentence_transformers: cannot be imported ({error}); run `pip install 'crm-leaderboard[embeddings]'`"
            ) from None
        try:
            encoder = SentenceTransformer(model, trust_remote_code=False)
        except (OSError, ValueError) as error:
            why = " ".join(str(error).split())[:300]
            raise ValueError(f"model: {model!r} cannot be loaded ({why}); give a folder that holds one") from None
        vectors: Vectors = encoder.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
        return vectors
    # Words in more than a tenth of many texts are those of a template.
    common = 0.1 if len(texts) >= 1_000 else 1.0
    vectorizer = TfidfVectorizer(
        ngram_range=(1, 2), stop_words="english", max_df=common, max_features=50_000, sublinear_tf=True
    )
    try:
        words = vectorizer.fit_transform(texts)
    except ValueError:  # no word is left
        return np.zeros((len(texts), 1))
    size = min(DIMENSIONS, *words.shape)
    reduced = TruncatedSVD(size, random_state=seed).fit_transform(words) if size > 1 else words.toarray()
    unit: Vectors = normalize(reduced)
    return unit


def _cluster(vectors: Vectors, count: int, seed: int) -> Labels:
    """Labels (n,), each of 0 to the largest used; fewer than six distinct rows are one cluster, if ``count`` is 0."""

    def fit(clusters: int) -> Labels:
        if len(vectors) > MANY_TEXTS:
            model = MiniBatchKMeans(clusters, n_init=3, batch_size=4096, random_state=seed)
        else:
            model = KMeans(clusters, n_init=4, random_state=seed)
        labels: Labels = np.unique(model.fit_predict(vectors), return_inverse=True)[1]
        return labels

    if count:
        return fit(count)
    different = len(np.unique(vectors, axis=0))
    tried = [fit(clusters) for clusters in COUNTS if clusters + 2 <= different]
    if not tried:
        return np.zeros(len(vectors), dtype=np.int64)
    score = partial(silhouette_score, vectors, metric="cosine", sample_size=2_000, random_state=seed)
    return max(tried, key=lambda labels: float(score(labels)))


def _keywords(texts: Sequence[str], labels: Sequence[int], topics: int) -> list[list[str]]:
    """The words of each topic with the largest class-based TF-IDF (Grootendorst 2022, arXiv 2203.05794)."""
    joined = [
        " ".join(text for text, own in zip(texts, labels, strict=True) if own == label) for label in range(topics)
    ]
    vectorizer = CountVectorizer(stop_words="english")
    try:
        counts = vectorizer.fit_transform(joined).toarray()
    except ValueError:  # no word is left
        return [[] for _ in range(topics)]
    rarity = np.log1p(counts.sum(axis=1).mean() / counts.sum(axis=0))
    weights = (counts / np.maximum(counts.sum(axis=1, keepdims=True), 1) * rarity).round(12)
    words = vectorizer.get_feature_names_out()
    best = np.argsort(-weights, axis=1, kind="stable")[:, :KEYWORDS]
    return [[str(words[at]) for at in own if row[at] > 0] for own, row in zip(best, weights, strict=True)]


def _names(keywords: Sequence[Sequence[str]]) -> list[str]:
    """The first keywords of each topic, with a number where another topic has the same."""
    names: list[str] = []
    for words in keywords:
        base = ", ".join(words[:NAME_WORDS]).capitalize() or "Without keywords"
        numbered = (f"{base} ({number})" for number in range(2, len(names) + 3))
        names.append(next(name for name in [base, *numbered] if name not in names))
    return names
