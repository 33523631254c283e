"""Fields of a row, checked by type. In: a row and the name of a field. Out: its value; `RecordError` for any other.

Missing, null and mistyped are one case: the error says what is expected and what is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from crm.schema import RecordError, short
from crm.votes.public.published import Conversation
from crm.votes.sampling import turn

V = TypeVar("V")
Row = Mapping[str, Any]


def text(row: Row, name: str) -> str:
    """Text that is not blank, as it stands."""
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise RecordError(name, f"expected a non-blank text, got {_shown(row, name)}")
    return value


def query(row: Row, name: str) -> Conversation:
    """A prompt of one turn."""
    return turn("user", text(row, name))


def response(row: Row, name: str) -> Conversation:
    """A response of one turn; its text may be empty."""
    value = row.get(name)
    if not isinstance(value, str):
        raise RecordError(name, f"expected the text of a response, got {_shown(row, name)}")
    return turn("assistant", value)


def number(row: Row, name: str, low: float, high: float) -> float:
    """A number in [low, high]."""
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise RecordError(name, f"expected a number in [{low:g}, {high:g}], got {_shown(row, name)}")
    return float(value)


def whole(row: Row, name: str) -> int:
    """A whole number."""
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        raise RecordError(name, f"expected a whole number, got {_shown(row, name)}")
    return value


def choice(row: Row, name: str, meanings: Mapping[Any, V]) -> V:
    """What one of a few codes means; codes are texts or numbers."""
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, (str, int, float)) or value not in meanings:
        allowed = ", ".join(repr(code) for code in meanings)
        raise RecordError(name, f"expected one of {allowed}, got {_shown(row, name)}")
    return meanings[value]


def inner(row: Row, name: str) -> dict[str, Any]:
    """An object inside the row; its fields bear its own name too, so that an error says where they stand."""
    value = row.get(name)
    if not isinstance(value, dict):
        raise RecordError(name, f"expected an object, got {_shown(row, name)}")
    return {f"{name}.{key}": item for key, item in value.items()}


def two(row: Row, name: str) -> list[Any]:
    """A list of two values, whatever they are."""
    value = row.get(name)
    if not isinstance(value, list) or len(value) != 2:
        raise RecordError(name, f"expected a list of two, got {_shown(row, name)}")
    return value


def _shown(row: Row, name: str) -> str:
    if row.get(name) is None:
        return "null" if name in row else "nothing"
    return short(row[name])
