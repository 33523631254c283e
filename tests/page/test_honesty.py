"""When a ranking is refused, and when it is not."""

from __future__ import annotations

from typing import Any

import pytest

from crm.leaderboard.bank.simulated import simulate_bank
from crm.page.honesty import LEAST_QUERIES, refusal
from crm.page.profile import Profile
from crm.page.ranker import Ranker
from tests.page.conftest import small_bank
from tests.page.counting import counting_ranker


@pytest.fixture(scope="module")
def ranker(tmp_path_factory: pytest.TempPathFactory) -> Ranker:
    return counting_ranker(simulate_bank(seed=1, queries_per_topic=4).bank, tmp_path_factory.mktemp("index"))


def test_few_queries_are_refused_and_enough_are_not(ranker: Ranker) -> None:
    for count in (1, 2, LEAST_QUERIES - 1, LEAST_QUERIES):
        said = refusal(ranker.rank(Profile(("short",), queries=count)))
        assert bool(said) is (count < LEAST_QUERIES), said
    assert refusal(ranker.rank(Profile(queries=1))).startswith("Only one question of the bank matches")


def test_words_that_say_nothing_are_refused_where_nothing_else_is_said(ranker: Ranker) -> None:
    profiles = (Profile(("qwer asdf",)), Profile(("qwer asdf", "short")), Profile((), ("qwer asdf",)), Profile())
    said = [refusal(ranker.rank(profile)) for profile in profiles]
    assert [bool(text) for text in said] == [True, False, True, False]
    assert "does not react to these words" in said[0]
    assert ranker.rank(profiles[1]).not_understood == ("qwer asdf",)


@pytest.mark.parametrize("lost, refused", [(18, False), (20, True)])
def test_a_fifth_without_a_verdict_is_the_most(make_ranker: Any, lost: int, refused: bool) -> None:
    """Of 3 x 30 comparisons: the scorer of these tests cannot read what says "huge"."""
    bank = small_bank(30)
    for number in range(lost):
        bank.responses["wordy"][f"q{number}"] = "huge"  # type: ignore[index]
    last = make_ranker(bank).rank(Profile())
    said = refusal(last)
    assert last.failed == lost and bool(said) is refused
    assert not refused or "could not read 20 of 90 comparisons" in said
