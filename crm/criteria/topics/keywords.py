"""Texts and their labels in, ten keywords and a name for every cluster out.

Class-based TF-IDF (Grootendorst 2022, arXiv 2203.05794, section 3.3): the weight of word t in cluster c is
``tf(t, c) / tf(c) * log(1 + A / tf(t))``, where tf(c) is the number of words in the cluster, tf(t) that of t in all
clusters, and A the mean number of words a cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import CountVectorizer

from crm.criteria.topics.words import STOP_WORDS, WORD_PATTERN, distinct

KEYWORDS = 10
NAME_WORDS = 3
LONGEST_WORD = 30
"""Letters; what is longer is a line of code or noise, and no keyword that anybody could read."""


def find_keywords(texts: Sequence[str], labels: Sequence[int], clusters: int) -> tuple[tuple[str, ...], ...]:
    """Up to `KEYWORDS` words for each of ``clusters`` (labels 0 to clusters - 1), best first, equals by alphabet.

    A cluster without a word that is not a stop word has none. Raises ``ValueError`` for no texts.
    """
    rows = distinct(texts)
    vectorizer = CountVectorizer(token_pattern=WORD_PATTERN, stop_words=STOP_WORDS)
    try:
        counts = vectorizer.fit_transform(rows.texts)
    except ValueError:  # scikit-learn's way to say that no word is left
        return ((),) * clusters
    # How often each distinct text stands in each cluster, times its words: duplicates count without being read again.
    members = csr_matrix((np.ones(len(labels)), (np.asarray(labels), rows.place)), shape=(clusters, len(rows.texts)))
    words = vectorizer.get_feature_names_out()
    shown = np.array([len(word) <= LONGEST_WORD for word in words])
    words, weights = words[shown], _class_tfidf(csr_matrix(members @ counts))[:, shown]
    return tuple(_top(weights[[label]], words) for label in range(clusters))


def name_clusters(keywords: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """A name a cluster: its first three keywords, four where three are taken, then a number; no two are equal."""
    names: list[str] = []
    for own in keywords:
        chosen = _without_plurals(own)
        options = [", ".join(chosen[:size]).capitalize() for size in (NAME_WORDS, NAME_WORDS + 1) if chosen]
        base = options[0] if options else "Without keywords"
        numbered = [f"{base} ({number})" for number in range(2, len(names) + 3)]
        names.append(next(name for name in [*options, base, *numbered] if name not in names))
    return tuple(names)


def _class_tfidf(counts: csr_matrix) -> csr_matrix:
    per_cluster = np.asarray(counts.sum(axis=1)).ravel()
    per_word = np.asarray(counts.sum(axis=0)).ravel()
    rarity = np.log1p(per_cluster.mean() / per_word)
    share = counts.multiply(1.0 / np.maximum(per_cluster, 1)[:, None])
    return csr_matrix(share.multiply(rarity[None, :]))


def _top(weights: csr_matrix, words: np.ndarray) -> tuple[str, ...]:
    # Rounded, so that equal weights stay equal whatever the order of the sums behind them.
    order = np.lexsort((words[weights.indices], -np.round(weights.data, 12)))[:KEYWORDS]
    return tuple(str(word) for word in words[weights.indices[order]])


def _without_plurals(words: Sequence[str]) -> list[str]:
    """Leave out a word whose singular or plural stands before it, unless too few words would be left."""
    kept: list[str] = []
    for word in words:
        if not {word + "s", word + "es", word.removesuffix("s"), word.removesuffix("es")} & set(kept):
            kept.append(word)
    return kept
