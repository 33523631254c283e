"""Profiles: what the judge reads, and a mistake is named."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import ValidationError

from crm.page.profile import MAX_CHARACTERS, Profile
from crm.schema import GENERIC_CRITERION
from crm.web import request_mistake


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
        ({"criteria": "one"}, "criteria: expected a valid list, got 'one'"),
        (
            {"criteria": ["x" * (MAX_CHARACTERS + 1)]},
            r"criteria\[0\]: string should have at most 500 characters, got 'x",
        ),
        ({"criteria": [str(n) for n in range(15)], "dislikes": [str(n) for n in range(6)]}, "21 lines .* at most 20"),
        ({"criteria": [1]}, r"criteria\[0\]: expected a valid string, got 1"),
        ({"about": "x", "topics": ["y"]}, "not by both"),
        ({"queries": -1}, "queries: expected greater than or equal to 0, got -1"),
        ({"criteria": ["x"], "weights": [1, 2]}, "weights: expected one for each of the 1 lines"),
        ({"criteria": ["x"], "weights": [0]}, r"weights\[0\]: expected greater than or equal to 0.01, got 0"),
        ({"judge": "x"}, "'judge': no such field; there are criteria, dislikes"),
    ],
)
def test_a_mistake_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as error:
        Profile.model_validate(given)
    assert re.search(message, request_mistake([{**own, "loc": ("body", *own["loc"])} for own in error.value.errors()]))
