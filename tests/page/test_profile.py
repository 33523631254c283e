"""Profiles: a link brings the same profile back, and a mistake is named."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from crm.page.profile import MAX_CHARACTERS, Profile, ProfileError, from_query, sentence
from crm.schema import GENERIC_CRITERION

line = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
lines = st.lists(line, max_size=5)


@settings(derandomize=True, deadline=None, max_examples=100)
@given(lines, lines, lines, line, st.integers(0, 999), st.floats(0.01, 100))
def test_a_link_says_the_same_again(
    likes: Any, dislikes: Any, models: Any, baseline: str, queries: int, weight: float
) -> None:
    profile = Profile(criteria=likes, dislikes=dislikes, models=models, baseline=baseline, queries=queries)
    profile = Profile(**profile.model_dump() | {"weights": [weight] * len(profile.lines)})
    query = urlencode({name: value for name, value in profile.model_dump().items() if value}, doseq=True)
    assert from_query(query) == profile


def test_what_the_judge_reads() -> None:
    assert Profile(criteria=("  short ", "short", "")).criteria == ("short",)
    assert Profile(criteria=("a\x00b\u202ec\ud800",)).criteria == ("a b c",)
    signed = Profile(criteria=("a", "b"), dislikes=("c",), weights=(2.0, 1.0, 3.0)).signed
    assert signed == (("a", "b", "c"), (2.0, 1.0, -3.0))
    assert Profile(dislikes=("c",)).signed == (("c",), (-1.0,)) and Profile().signed == ((GENERIC_CRITERION,), (1.0,))
    assert Profile(criteria=("a",), weights=(1.0,)) == Profile(criteria=("a",))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"criteria": "one"}, "criteria: input should be a valid list, got 'one'"),
        ({"criteria": ["x" * (MAX_CHARACTERS + 1)]}, "criteria.0: string should have at most 500 characters, got 'x"),
        ({"criteria": [str(n) for n in range(15)], "dislikes": [str(n) for n in range(6)]}, "21 lines .* at most 20"),
        ({"criteria": [1]}, "criteria.0: input should be a valid string, got 1"),
        ({"about": "x", "topics": ["y"]}, "not by both"),
        ({"queries": -1}, "queries: input should be greater than or equal to 0, got -1"),
        ({"criteria": ["x"], "weights": [1, 2]}, "weights: expected one for each of the 1 lines"),
        ({"criteria": ["x"], "weights": [0]}, "weights.0: input should be greater than or equal to 0.01, got 0"),
        ({"judge": "x"}, "'judge': no such field; there are criteria, dislikes"),
    ],
)
def test_a_mistake_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as error:
        Profile.model_validate(given)
    assert re.search(message, sentence(error.value.errors()))


def test_a_link_may_hold_anything() -> None:
    assert from_query("criteria=a&utm_source=x&criteria=b") == Profile(criteria=("a", "b"))
    for query, message in (("queries=many", "queries"), ("criteria=" + "x" * 100_000, "at most 500")):
        with pytest.raises(ProfileError, match=message):
            from_query(query)
