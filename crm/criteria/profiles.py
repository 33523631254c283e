"""What a user asked before, as criteria. In: a question and the user's earlier posts. Out: criteria, one a post.

A post reads ``Has asked before: <its text>``, on one line: that is a fact about the user which a judge can weigh, and
no claim about what they want. The most relevant post stands first; equally relevant ones keep their own order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from crm.criteria.topics.extras import require
from crm.io.words import first_words
from crm.schema import GENERIC_CRITERION, MAX_CRITERIA, RecordError
from crm.votes.public.personalized_rewardbench import Tell

PROFILES = ("none", "all", "first", "bm25", "embedding")
"""Which posts a judge is told: none, all, the first as the file has them, or the most relevant by one of two ways."""
WORDING = "Has asked before: {}"

Scores = npt.NDArray[np.float64]
Score = Callable[[str, Sequence[str]], Scores]


def teller(kind: str, *, posts: int, model: str | None = None, max_words: int = 0, seed: int = 0) -> Tell | None:
    """How a profile becomes criteria, or ``None`` where a judge is told of none. ``kind`` is one of `PROFILES`.

    At most ``posts`` posts are told, or all of them with kind ``all``; ``max_words`` words of each, 0 for all. A user
    without posts has the generic criterion. ``embedding`` takes the sentence-transformers ``model``, or TF-IDF without.
    The function raises `RecordError` for more posts than a comparison can have criteria.
    """
    if kind not in PROFILES:
        raise ValueError(f"profile: {kind!r} is not one of {', '.join(PROFILES)}")
    if kind == "none":
        return None
    score: Score | None = bm25_scores if kind == "bm25" else None
    if kind == "embedding":
        score = _embedding_scores(model, seed)
    return partial(_tell, score=score, limit=None if kind == "all" else posts, max_words=max_words or None)


def _tell(
    question: str, posts: Sequence[str], *, score: Score | None, limit: int | None, max_words: int | None
) -> tuple[str, ...]:
    if not posts:
        return (GENERIC_CRITERION,)
    chosen = list(posts if score is None else ranked(posts, score(question, posts)))[:limit]
    if len(chosen) > MAX_CRITERIA:
        raise RecordError(
            "profile",
            f"{len(chosen)} posts, at most {MAX_CRITERIA} can be criteria; take the most relevant (data.profile=bm25)",
        )
    return tuple(WORDING.format(first_words(" ".join(post.split()), max_words)) for post in chosen)


def ranked(posts: Sequence[str], scores: Scores) -> list[str]:
    """Posts by falling score (n,); equal scores keep the order of ``posts``."""
    return [posts[index] for index in np.argsort(-scores, kind="stable")]


def bm25_scores(question: str, posts: Sequence[str]) -> Scores:
    """BM25 of each of n posts for the question, shape (n,), 0 or more; rarity is counted among these posts.

    Lucene's form with k1 = 1.5 and b = 0.75 (Robertson and Zaragoza 2009). Raises ``ValueError`` without the library.
    """
    wanted, held = _words(question), [_words(post) for post in posts]
    if not wanted or not any(held):
        return np.zeros(len(posts))
    index = require("bm25s", "profiles").BM25(method="lucene", k1=1.5, b=0.75, dtype="float64")
    index.index(held, show_progress=False)
    return np.asarray(index.get_scores(wanted), dtype=np.float64)


def _words(text: str) -> list[str]:
    from crm.criteria.topics.words import WORD_PATTERN  # behind it is scikit-learn, which settings need not wait for

    return re.findall(WORD_PATTERN, text.casefold())


def _embedding_scores(model: str | None, seed: int) -> Score:
    """Cosine similarity of question and posts, shape (n,)."""
    from crm.criteria.topics.embed import make_embedder

    embed = make_embedder("sentence_transformers" if model else "tfidf", model=model, seed=seed)

    def score(question: str, posts: Sequence[str]) -> Scores:
        vectors = embed([question, *posts]).astype(np.float64)
        return np.asarray(vectors[1:] @ vectors[0])

    return score
