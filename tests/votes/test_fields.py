"""Fields of a row: what is taken, and what each refusal says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from crm.schema import Message, RecordError
from crm.votes.fields import choice, inner, number, response, text, two, whole

ROW: dict[str, Any] = {
    "text": " x ", "blank": " ", "null": None, "true": True, "one": 1, "half": 0.5, "list": [1, 2], "object": {"a": 1}
}  # fmt: skip


def test_values_come_back_as_they_stand() -> None:
    assert text(ROW, "text") == " x "
    assert response(ROW, "blank") == (Message("assistant", " "),)
    assert number(ROW, "half", 0, 0.5) == 0.5
    assert whole(ROW, "one") == 1
    assert choice({"side": 1.0}, "side", {1: "a", 2: "b"}) == "a"
    assert inner(ROW, "object") == {"object.a": 1}, "an error names the whole path"
    assert two(ROW, "list") == [1, 2]


@pytest.mark.parametrize(
    ("read", "name", "why"),
    [
        (text, "blank", "expected a non-blank text, got ' '"),
        (text, "null", "expected a non-blank text, got null"),
        (text, "absent", "expected a non-blank text, got nothing"),
        (response, "one", "expected the text of a response, got 1"),
        (lambda row, name: number(row, name, 0, 1), "true", "expected a number in [0, 1], got True"),
        (lambda row, name: number(row, name, 2, 3), "one", "expected a number in [2, 3], got 1"),
        (whole, "true", "expected a whole number, got True"),
        (whole, "half", "expected a whole number, got 0.5"),
        (lambda row, name: choice(row, name, {1: "a"}), "true", "expected one of 1, got True"),
        (lambda row, name: choice(row, name, {1: "a", "x": "b"}), "half", "expected one of 1, 'x', got 0.5"),
        (lambda row, name: choice(row, name, {1: "a"}), "list", "expected one of 1, got [1, 2]"),
        (inner, "list", "expected an object, got [1, 2]"),
        (two, "text", "expected a list of two, got ' x '"),
    ],
)
def test_any_other_value_is_refused(read: Callable[..., Any], name: str, why: str) -> None:
    with pytest.raises(RecordError) as caught:
        read(ROW, name)
    assert (caught.value.field, caught.value.why) == (name, why)
