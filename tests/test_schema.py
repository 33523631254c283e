"""Records: what they refuse and how they say so, JSON there and back, the key of a prompt."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crm.schema import MAX_CRITERIA, Comparison, Message, Prediction, Preference, RecordError, prompt_key, to_json

USER = {"role": "user", "content": "Why?"}
SIDE = {"role": "assistant", "content": "Because."}
ROW = {"id": "1", "prompt": [USER], "response_a": [SIDE], "response_b": [SIDE], "winner": "a", "criteria_a": ["short"]}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"winner": "A"}, "winner"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [{"role": "robot", "content": "x"}]}, "prompt[0].role"),
        ({"response_a": [{"role": "assistant", "content": 3}]}, "response_a[0].content"),
        ({"criteria_a": "short"}, "criteria_a"),
        ({"criteria_a": ["short", " "]}, "criteria_a[1]"),
        ({"criteria_a": ["c"] * (MAX_CRITERIA + 1)}, "criteria_a"),
        ({"colour": "red"}, "colour"),
        ({"response_b": "left out"}, "response_b"),
    ],
)
def test_a_bad_field_is_named(change: dict[str, Any], field: str) -> None:
    row = {name: value for name, value in {**ROW, **change}.items() if value != "left out"}
    with pytest.raises(RecordError) as caught:
        Preference.from_dict(row)
    assert caught.value.field == field
    assert str(caught.value) == f"{field}: {caught.value.why}"


@given(st.text(), st.lists(st.text().filter(str.strip), max_size=4))
def test_json_there_and_back(content: str, criteria: list[str]) -> None:
    row = {**ROW, "prompt": [{"role": "user", "content": content}], "criteria_b": criteria}
    record = Preference.from_dict(row)
    assert "\n" not in (line := to_json(record))
    assert Preference.from_dict(json.loads(line)) == record


def test_numbers_that_json_lacks_are_refused() -> None:
    record = Prediction("c", "ab", float("nan"), "a", "k", "D+", "f")
    with pytest.raises(ValueError, match="JSON"):
        to_json(record)


def test_prompts_that_differ_in_case_and_space_share_a_key() -> None:
    def key(text: str) -> str:
        return prompt_key((Message("user", text),))

    assert key("Why  is the\nsky blue?") == key("why is the sky BLUE? ")
    assert key("why") != key("who")
    comparison = Comparison("c", "p", ("x",), (Message("user", "why"),), (Message("assistant", ""),) * 1, [SIDE], "a")
    assert comparison.cluster == key("Why")
