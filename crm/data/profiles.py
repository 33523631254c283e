"""Criteria from a user's profile: earlier posts, each as ``Has asked before: <its text>``, the most relevant first."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

from crm.data.public.personalized_rewardbench import Tell
from crm.io.words import first_words
from crm.schema import GENERIC_CRITERION, MAX_CRITERIA, RecordError

PROFILES = ("none", "all", "first", "bm25")
"""Which posts become criteria: none, all, the first in the file, or the most relevant to the question."""
WORDING = "Has asked before: {}"

Rank = Callable[[str, Sequence[str]], list[str]]


def teller(kind: str, *, posts: int, max_words: int = 0) -> Tell | None:
    """The function from a question and posts to criteria, or ``None`` for ``none``. ``kind`` is one of `PROFILES`.

    It takes at most ``posts`` posts (``all``: every one), and ``max_words`` words of each (0: all). A user without
    posts has the generic criterion. It raises `RecordError` for more posts than a comparison can have criteria.
    """
    if kind not in PROFILES:
        raise ValueError(f"profile: {kind!r} is not one of {', '.join(PROFILES)}")
    if kind == "none":
        return None
    rank = by_bm25 if kind == "bm25" else None
    return partial(_criteria, rank=rank, limit=None if kind == "all" else posts, max_words=max_words or None)


def _criteria(
    question: str, posts: Sequence[str], *, rank: Rank | None, limit: int | None, max_words: int | None
) -> tuple[str, ...]:
    if not posts:
        return (GENERIC_CRITERION,)
    chosen = (rank(question, posts) if rank else list(posts))[:limit]
    if len(chosen) > MAX_CRITERIA:
        raise RecordError(
            "profile",
            f"{len(chosen)} posts, at most {MAX_CRITERIA} can be criteria; take the most relevant (data.profile=bm25)",
        )
    return tuple(WORDING.format(first_words(" ".join(post.split()), max_words)) for post in chosen)


def by_bm25(question: str, posts: Sequence[str]) -> list[str]:
    """Posts by falling BM25 for the question (Lucene's form, k1 = 1.5, b = 0.75), equal ones in their own order."""
    try:
        import bm25s  # an extra
    except ImportError as error:
        raise ValueError(
            f"bm25s: cannot be imported ({error}); run `pip install 'crm-leaderboard[profiles]'`"
        ) from None
    wanted, documents = _words(question), [_words(post) for post in posts]
    if not wanted or not any(documents):
        return list(posts)
    index = bm25s.BM25(method="lucene", k1=1.5, b=0.75, dtype="float64")
    index.index(documents, show_progress=False)
    scores = index.get_scores(wanted)
    return [posts[at] for at in sorted(range(len(posts)), key=lambda at: -scores[at])]


def _words(text: str) -> list[str]:
    return re.findall(r"\w{2,}", text.casefold())
