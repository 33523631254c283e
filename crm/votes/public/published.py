"""What the two published file formats share. In: values of a row. Out: validated conversations, criteria, winner.

Decisions, the same for both formats:

- ``model_a``, ``model_b`` and ``tie`` are the only winners; anything else is refused, never taken for one of them.
- Criteria are a list of strings. A string that holds such a list, as JSON or as Python prints it, is read (literals
  only, nothing is executed) and counted; any other string is refused: one criterion or several, nobody can tell.
- Fields the format does not have are ignored, as in the authors' own readers, and counted
  (``rows_with_unknown_fields``).
- An empty response text is a legal response; an empty list of messages is not.
"""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Mapping
from typing import Any

from crm.io.untrusted import check_row
from crm.schema import Message, RecordError, messages, short, texts

WINNERS = {"model_a": "a", "model_b": "b", "tie": "tie"}
MAX_LIST_TEXT = 100_000
"""Characters of a list given as text."""

Conversation = tuple[Message, ...]


def require(row: Mapping[str, Any], names: tuple[str, ...]) -> None:
    """Raise `RecordError` for the first field that is missing or null."""
    for name in names:
        if row.get(name) is None:
            raise RecordError(name, "null" if name in row else "missing")


def winner(value: object, field: str) -> str:
    """``a``, ``b`` or ``tie``."""
    if not isinstance(value, str) or value not in WINNERS:
        raise RecordError(field, f"{short(value)} is not one of {', '.join(WINNERS)}")
    return WINNERS[value]


def string_list(value: object, field: str) -> tuple[str, ...]:
    """A list of non-blank strings, given as a list or as the text of one; possibly empty."""
    return texts(_list_in(value, field) if isinstance(value, str) else value, field)


def _list_in(text: str, field: str) -> list[Any]:
    if not text.strip().startswith("["):
        raise RecordError(field, f'a string, not a list: {short(text)}; write it as ["..."]')
    if len(text) > MAX_LIST_TEXT:
        raise RecordError(
            field, f"a list written as {len(text):,} characters of text, at most {MAX_LIST_TEXT:,} are read"
        )
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = _python_literal(text.strip(), field)
    check_row({field: value})  # its escapes can spell what the row itself was not allowed to hold
    return list(value) if isinstance(value, list) else [value]


def _python_literal(text: str, field: str) -> object:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise RecordError(field, f"a string that is no list of strings: {short(text)}") from None


def conversations(row: Mapping[str, Any]) -> tuple[Conversation, Conversation, Conversation]:
    """Prompt, response A and response B of the whole conversations in ``model_a`` and ``model_b``.

    The prompt is the leading turns that both share, up to where both continue with the assistant.
    """
    a, b = messages(row["model_a"], "model_a"), messages(row["model_b"], "model_b")
    shared = 0
    while shared < min(len(a), len(b)) and a[shared] == b[shared]:
        shared += 1
    while shared > 0 and not (_assistant_at(a, shared) and _assistant_at(b, shared)):
        shared -= 1
    if shared == 0:
        raise RecordError("model_b", "shares no leading turns with model_a that an assistant's turn follows in both")
    return a[:shared], a[shared:], b[shared:]


def _assistant_at(turns: Conversation, index: int) -> bool:
    return index < len(turns) and turns[index].role == "assistant"
