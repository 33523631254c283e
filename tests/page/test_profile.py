"""Profiles: what a link says comes back, and what may not be asked is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crm.page.profile import DISLIKE, MAX_CHARACTERS, Profile, ProfileError, from_mapping, from_query
from crm.schema import GENERIC_CRITERION

line = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@settings(derandomize=True, deadline=None, max_examples=200)
@given(st.lists(line, max_size=5), st.lists(line, max_size=4), st.lists(line, max_size=3), line, st.integers(0, 999))
def test_a_link_says_the_same_again(likes: Any, dislikes: Any, models: Any, baseline: str, queries: int) -> None:
    profile = Profile(tuple(likes), tuple(dislikes), (), "", baseline, tuple(models), queries)
    assert from_query(profile.to_query()) == profile
    assert profile.to_query().isascii() and " " not in profile.to_query()


def test_what_the_judge_is_told() -> None:
    assert Profile().told == (GENERIC_CRITERION,)
    assert Profile(("  short ", "short", ""), ("jokes",)).told == ("short", DISLIKE + "jokes")
    assert Profile(("a\x00b\u202ec",)).criteria == ("a b c",)


def test_profiles_that_ask_for_the_same_have_one_digest() -> None:
    assert Profile(("a ",)).digest == Profile(("a",)).digest != Profile((), ("a",)).digest


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"criteria": "one"}, "criteria: expected a list of texts, got 'one'"),
        ({"criteria": ["x" * (MAX_CHARACTERS + 1)]}, "criteria: expected texts of at most 500 characters"),
        ({"criteria": [str(n) for n in range(15)], "dislikes": [str(n) for n in range(6)]}, "21 lines .* at most 20"),
        ({"criteria": [1]}, "criteria: expected texts"),
        ({"topics": [str(n) for n in range(1001)]}, "topics: 1001 entries"),
        ({"about": 3}, "about: expected text"),
        ({"about": "x", "topics": ["y"]}, "not by both"),
        ({"queries": -1}, "queries: expected a number from 0"),
        ({"queries": True}, "queries: expected a number"),
        ({"queries": 1e9}, "queries: expected a number"),
        ({"judge": "x"}, "'judge': no such field; there are criteria, dislikes"),
    ],
)
def test_what_may_not_be_asked_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        from_mapping(given)


def test_a_link_may_hold_anything() -> None:
    assert from_query("criteria=a&utm_source=x&criteria=b") == Profile(("a", "b"))
    with pytest.raises(ProfileError, match="queries"):
        from_query("queries=many")
    with pytest.raises(ProfileError, match="at most 500"):
        from_query("criteria=" + "x" * 100_000)
