"""Texts in, a float32 matrix (n, d) out: rows of length 1, or 0 for a text in which no known word is left.

``tfidf`` needs nothing but the texts themselves: words and pairs of neighbours, weighted by rarity, reduced by a
truncated singular value decomposition (latent semantic analysis, Deerwester et al. 1990). ``sentence_transformers``
reads them with a pretrained model that the caller names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from crm.criteria.topics.extras import require
from crm.criteria.topics.words import STOP_WORDS, WORD_PATTERN, distinct

EMBEDDERS = ("tfidf", "sentence_transformers")
DIMENSIONS = 100
MAX_WORDS = 50_000
"""Words and pairs kept, the most frequent; it bounds memory for any number of texts."""
MANY_TEXTS = 1_000
"""From this many distinct texts on, a word must occur in two of them and in no more than `COMMON`; below, all count."""
COMMON = 0.1
"""A word in a larger share of many texts tells how people ask ("how do I improve"), not what about."""

Matrix = npt.NDArray[np.float32]
Embed = Callable[[Sequence[str]], Matrix]


def make_embedder(name: str, *, model: str | None = None, seed: int = 0) -> Embed:
    """The embedder of that name as a function of texts; ``model`` is for ``sentence_transformers`` alone.

    Raises ``ValueError`` for an unknown name, and for a model that is missing or not wanted.
    """
    if name not in EMBEDDERS:
        raise ValueError(f"embedder: {name!r} is not one of {', '.join(EMBEDDERS)}")
    if name == "tfidf":
        if model is not None:
            raise ValueError(f"model: {model!r} is not used by embedder tfidf; take embedder sentence_transformers")
        return lambda texts: tfidf_embeddings(texts, seed=seed)
    if not model:
        raise ValueError(
            "model: embedder sentence_transformers needs one; give a local folder or the id of a hub model"
        )
    library = require("sentence_transformers", "embeddings")
    encoder = cache(partial(_load, library, model))  # loaded with the first texts, and once
    return lambda texts: _encoded(texts, encoder())


def tfidf_embeddings(texts: Sequence[str], *, dimensions: int = DIMENSIONS, seed: int = 0) -> Matrix:
    """Latent semantic analysis of at least one text; d is ``dimensions`` or what distinct texts and words allow.

    Duplicates are fitted once, and the order of rows does not matter. Raises ``ValueError`` for no texts.
    """
    if dimensions < 1:
        raise ValueError(f"dimensions: {dimensions} is not a positive number")
    rows = distinct(texts)
    words = _word_matrix(rows.texts)
    if words is None:
        return np.zeros((len(texts), 1), dtype=np.float32)
    if words.shape[1] == 1:  # the library refuses to reduce a single word
        return unit_rows(words.toarray())[rows.place]
    with np.errstate(invalid="ignore", divide="ignore"):  # a share of variance that is 0 for one distinct text
        reduced = TruncatedSVD(min(dimensions, *words.shape), random_state=seed).fit_transform(words)
    return unit_rows(reduced)[rows.place]


def sentence_embeddings(texts: Sequence[str], *, model: str, batch_size: int = 64) -> Matrix:
    """Embeddings by a sentence-transformers model, a local folder or a hub id; its code is never run.

    Every distinct text is read once, in sorted order, so equal texts have equal rows whatever stands around them.
    Raises ``ValueError`` for no texts, a model that cannot be loaded, or the package missing.
    """
    return _encoded(texts, _load(require("sentence_transformers", "embeddings"), model), batch_size)


def _encoded(texts: Sequence[str], encoder: Any, batch_size: int = 64) -> Matrix:
    rows = distinct(texts)
    vectors = encoder.encode(rows.texts, batch_size=batch_size, show_progress_bar=False, convert_to_numpy=True)
    return unit_rows(vectors)[rows.place]


def _load(library: Any, model: str) -> Any:
    """The model, without a progress bar on the terminal."""
    bars = require("transformers.utils.logging", "embeddings")
    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        return library.SentenceTransformer(model, trust_remote_code=False)
    except (OSError, ValueError) as error:
        why = " ".join(str(error).split())[:300]
        raise ValueError(f"model: {model!r} cannot be loaded ({why}); give a folder that holds one") from None
    finally:
        if shown:
            bars.enable_progress_bar()


def unit_rows(vectors: npt.NDArray[np.floating]) -> Matrix:
    """Rows of (n, d) scaled to length 1. A row shorter than a millionth is rounding error and becomes 0."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    kept = lengths > 1e-6
    scaled: Matrix = np.where(kept, vectors / np.where(kept, lengths, 1.0), 0.0).astype(np.float32)
    return scaled


def _word_matrix(texts: list[str]) -> csr_matrix | None:
    """TF-IDF of 1- and 2-grams (n, words); stop words come back where nothing else is left; None without any word."""
    everything: list[tuple[list[str] | None, int, float]] = [(STOP_WORDS, 1, 1.0), (None, 1, 1.0)]
    selective: list[tuple[list[str] | None, int, float]] = [(STOP_WORDS, 2, COMMON)] if len(texts) >= MANY_TEXTS else []
    for stop_words, least, most in selective + everything:
        vectorizer = TfidfVectorizer(
            token_pattern=WORD_PATTERN,
            ngram_range=(1, 2),
            stop_words=stop_words,
            min_df=least,
            max_df=most,
            max_features=MAX_WORDS,
            sublinear_tf=True,
            dtype=np.float64,  # in single precision, clusters would differ between machines and numbers of threads
        )
        try:
            return vectorizer.fit_transform(texts)
        except ValueError:  # scikit-learn's way to say that no word is left
            continue
    return None
