"""Profiles as criteria: BM25 against its formula by hand, ties, limits, and users without posts."""

from __future__ import annotations

import importlib.util
import math
import sys

import pytest
from crm.data.profiles import by_bm25, teller

from crm.schema import GENERIC_CRITERION, MAX_CRITERIA, RecordError

POSTS = ["Which oak grows fast?", "Bread without yeast", "Oak, oak and more oak for a table"]
needs_bm25 = pytest.mark.skipif(importlib.util.find_spec("bm25s") is None, reason="bm25s is not installed")


def criteria(kind: str, question: str, posts: list[str], count: int = 10, **given: int) -> tuple[str, ...]:
    tell = teller(kind, posts=count, **given)  # type: ignore[arg-type]
    assert tell is not None
    return tell(question, posts)


def by_hand(question: str, posts: list[str]) -> list[float]:
    held = [["which", "oak", "grows", "fast"], ["bread", "without", "yeast"]]
    held.append(["oak", "oak", "and", "more", "oak", "for", "table"])  # one letter is no word
    mean = (4 + 3 + 7) / 3
    scores = []
    for words in held:
        score = 0.0
        for word in question.split():
            containing = sum(word in other for other in held)
            rarity = math.log(1 + (3 - containing + 0.5) / (containing + 0.5))
            often = words.count(word)
            score += rarity * often / (often + 1.5 * (1 - 0.75 + 0.75 * len(words) / mean))
        scores.append(score)
    return scores


@needs_bm25
@pytest.mark.parametrize("question", ["oak", "bread", "fast oak table", "table yeast", "oak elm"])
def test_bm25_by_hand_on_three_posts(question: str) -> None:
    expected = by_hand(question, POSTS)
    order = sorted(range(3), key=lambda index: -expected[index])
    shown = criteria("bm25", question, POSTS, 2)
    assert shown == tuple(f"Has asked before: {POSTS[index]}" for index in order[:2])


@needs_bm25
def test_words_that_nobody_used_leave_the_order_alone() -> None:
    for question, posts in (("?", POSTS), ("elm", POSTS), ("oak", ["?", "!", "."])):
        assert criteria("bm25", question, posts) == tuple(f"Has asked before: {post}" for post in posts)


def test_the_first_and_all_are_in_the_order_of_the_file() -> None:
    lines = tuple(f"Has asked before: {post}" for post in POSTS)
    assert criteria("first", "yeast", POSTS, 2) == lines[:2]
    assert criteria("all", "yeast", POSTS, 2) == lines
    assert teller("none", posts=10) is None


def test_a_post_is_one_line_and_can_be_cut() -> None:
    assert criteria("first", "?", ["Title\n\n a  long\tstory"]) == ("Has asked before: Title a long story",)
    assert criteria("first", "?", ["Title\n\n a  long\tstory"], max_words=2) == ("Has asked before: Title a ...",)


@pytest.mark.parametrize("kind", ["all", "first", "bm25"])
def test_a_user_without_posts_has_the_generic_criterion(kind: str) -> None:
    assert criteria(kind, "oak", []) == (GENERIC_CRITERION,)


def test_more_posts_than_criteria_are_refused_and_the_way_out_is_criteria() -> None:
    many = [f"post {index}" for index in range(MAX_CRITERIA + 1)]
    assert len(criteria("all", "?", many[:-1])) == MAX_CRITERIA
    with pytest.raises(RecordError, match=r"profile: 65 posts, at most 64 .*data\.profile=bm25"):
        criteria("all", "?", many)
    with pytest.raises(ValueError, match="profile: 'bm52' is not one of none, all, first, bm25"):
        teller("bm52", posts=1)


def test_the_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(ValueError, match=r"bm25s: cannot be imported .*crm-leaderboard\[profiles\]"):
        by_bm25("oak", POSTS)
