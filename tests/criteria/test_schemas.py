"""The rules for a model's criteria: good ones pass as they are, one broken rule fails the whole reply."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from crm.criteria.prompts import EXAMPLE_WHY, EXAMPLES_A, EXAMPLES_B
from crm.criteria.schemas import CriteriaReply, SubjectiveReply, key

GOOD = ["Prefers a calm voice", "Likes examples", "Écrit en français", "東京の話が好き", "Wants a list of items"]


def reply(criteria_a: Any, criteria_b: Any, **more: Any) -> CriteriaReply:
    return CriteriaReply.model_validate({"criteria_a": criteria_a, "criteria_b": criteria_b, **more}, strict=True)


def refused(criteria_a: Any, criteria_b: Any, **more: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        reply(criteria_a, criteria_b, **more)
    return str(caught.value)


wishes = st.builds(
    lambda verb, words: f"{verb} {' '.join(words)}",
    st.sampled_from(["Prefers", "Likes", "Avoids", "Möchte"]),
    st.lists(st.text("abcdefgäöüß日本", min_size=2, max_size=9), min_size=1, max_size=12),
)
two_sides = st.lists(wishes, min_size=2, max_size=16, unique_by=key).flatmap(
    lambda texts: st.integers(max(1, len(texts) - 8), min(8, len(texts) - 1)).map(lambda n: (texts[:n], texts[n:]))
)


@given(two_sides)
def test_good_criteria_pass_unchanged(sides: tuple[list[str], list[str]]) -> None:
    accepted = reply(*sides)
    assert (accepted.criteria_a, accepted.criteria_b) == sides


@given(two_sides, st.data())
def test_a_copy_on_either_side_is_refused(sides: tuple[list[str], list[str]], data: Any) -> None:
    copied = data.draw(st.sampled_from([*sides[0], *sides[1]]))
    copied = data.draw(st.sampled_from([copied, copied.swapcase(), copied.replace(" ", "  "), copied + "."]))
    assume(key(copied) in {key(text) for side in sides for text in side})  # ß and its like have no way back
    for crowded in (([*sides[0], copied], sides[1]), (sides[0], [*sides[1], copied])):
        message = refused(*crowded)
        assert "twice" in message or "both sides" in message or "at most 8" in message


@pytest.mark.parametrize(
    "text",
    [
        "...", "…", "---", "123", "criterion 1", "Criterion A", "<criterion>", "[criterion 2]", "string", "String.",
        "text", "N/A", "none", "null", "TODO", "your criterion here", "first criterion", "placeholder", "unknown",
        "item 3", "same as A", "criterion for A", "Lorem ipsum dolor",
        *EXAMPLES_A, EXAMPLES_B[0].upper(), f" {EXAMPLES_B[1]}. ",
        "Prefers response A", "Likes the style of Response B", "What response_a does", "Would choose model B",
        "Prefers the first response", "Two\nlines", "A bell \x07 rings", "Line\u2028end",
        "", "  ", "ab", "x" * 301, 5, None, ["nested"], {"text": "Wants more"}, True,
    ],
)  # fmt: skip
def test_what_is_no_criterion_is_refused(text: Any) -> None:
    refused([text], GOOD)
    refused(GOOD, [text])
    refused([*GOOD, text], ["Wants less"])


@pytest.mark.parametrize(
    "text",
    [
        "Prefers text over lists", "Wants none of the usual phrases", "Likes an answer a child would give",
        "Unknown facts and stories delight me", "Items in order of importance", "Option to read more later",
        "Wants strings of pearls, not single facts", "x" * 300, "abc", "Same tone all the way through",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_placeholder_passes(text: str) -> None:
    assert reply([text], GOOD).criteria_a == [text]


def test_sizes_and_shape() -> None:
    nine = [f"Wants {word} things" for word in ("one", "two", "six", "ten", "no", "old", "new", "red", "big")]
    assert reply(nine[:8], ["Wants none of that"])
    for bad in (nine, [], "Wants it short", None, {"0": "Wants it short"}, ("Wants it short",)):
        refused(bad, GOOD)
        refused(GOOD, bad)
    refused(["Wants it short"], GOOD, note="extra")
    with pytest.raises(ValidationError):
        CriteriaReply.model_validate({"criteria_a": GOOD}, strict=True)
    assert reply(["  Wants it short "], GOOD).criteria_a == ["Wants it short"]


def test_a_verdict_has_its_own_reason() -> None:
    assert SubjectiveReply.model_validate({"subjective": False, "why": "A sum can be checked."}, strict=True)
    for bad in (
        {"subjective": "yes", "why": "Because tastes differ."},
        {"subjective": 1, "why": "Because tastes differ."},
        {"subjective": True},
        {"subjective": True, "why": ""},
        {"subjective": True, "why": EXAMPLE_WHY},
    ):
        with pytest.raises(ValidationError):
            SubjectiveReply.model_validate(bad, strict=True)
