"""Fields of a row, checked. In: a row and the name of a field, or a cell. Out: its value; `RecordError` for any other.

- Of a public set's row: missing, null and mistyped are one case: the error says what is expected and what is there.
- Cells of files of one's own: a text is one turn, and a list is messages. Tables keep such lists as their JSON text;
  whether they do is decided by the column (`hold_messages`), as a response may well be JSON.
- A string that holds a list of strings, as JSON or as Python prints it, is read (literals only, nothing is executed).
"""

from __future__ import annotations

import ast
import hashlib
import json
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from crm.io.untrusted import check_row, decode
from crm.schema import Message, RecordError, messages, short, texts
from crm.votes.sampling import turn

V = TypeVar("V")
Row = Mapping[str, Any]
Conversation = tuple[Message, ...]
MAX_LIST_TEXT = 100_000
"""Characters of a list given as text."""
MOST = 0.9
"""Share of a column's texts that are lists of messages from which on all of them have to be."""


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


def require(row: Mapping[str, Any], names: tuple[str, ...], null: str = "null") -> None:
    """Raise `RecordError` for the first field that is missing or null; ``null`` is what the file has in its place."""
    for name in names:
        if row.get(name) is None:
            raise RecordError(name, null if name in row else "missing")


def turns(value: Any, field: str, role: str) -> Conversation:
    """A conversation: one turn of ``role`` where ``value`` is text, else its messages. Raises `RecordError`."""
    if isinstance(value, str):
        return turn(role, value)
    if isinstance(value, list):
        return messages(value, field)
    raise RecordError(field, f"expected text or a list of messages, got {type(value).__name__}")


def asked(value: Any, field: str) -> Conversation:
    """A prompt, as `turns` of the user; blank text is refused, as an empty cell is most often a missing one."""
    if isinstance(value, str) and not value.strip():
        raise RecordError(field, "blank")
    return turns(value, field, "user")


def hold_messages(cells: Sequence[Any]) -> bool:
    """Whether a column's texts are lists of messages, each with role and content: `MOST` of those that are not blank.

    Those of the column that are none are then bad rows: cut off, most often.
    """
    given = [cell for cell in cells if isinstance(cell, str) and cell.strip()]
    return bool(given) and sum(map(_is_messages, given)) >= MOST * len(given)


def _is_messages(text: str) -> bool:
    if not (text.lstrip().startswith("[") and "role" in text and "content" in text):
        return False
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        try:
            found = _list_in(text, "")
        except RecordError:
            return False
    turns = found if isinstance(found, list) else []
    return bool(turns) and all(isinstance(turn, dict) and {"role", "content"} <= turn.keys() for turn in turns)


def items(value: Any, field: str) -> list[Any]:
    """A list, given as one or as its JSON text. Raises `RecordError`."""
    if isinstance(value, str):
        try:
            value = decode(value.encode("utf-8"))
        except RecordError as error:
            raise RecordError(field, f"{error.why}; a list in a text must be JSON (Python: json.dumps)") from None
        check_row({field: value})  # its escapes can spell what the row itself was not allowed to hold
    if not isinstance(value, list):
        raise RecordError(field, f"expected a list, got {type(value).__name__}")
    return value


def any_text(value: Any, field: str) -> str:
    """Text, possibly empty. Raises `RecordError`."""
    if not isinstance(value, str):
        raise RecordError(field, f"expected text, got {'null' if value is None else type(value).__name__}")
    return value


def optional_text(value: Any, field: str) -> str | None:
    """Text without the white space around it; ``None`` for null and for blank text. Raises `RecordError`."""
    return None if value is None else any_text(value, field).strip() or None


def criteria_cell(value: Any, field: str) -> tuple[str, ...]:
    """Criteria: a list of texts or its JSON text, or a text with one a line; of one line, split at its semicolons.

    Null and blank text are no criteria. Raises `RecordError`.
    """
    if not isinstance(value, str):
        return texts(value, field)
    if value.strip().startswith("["):
        return string_list(value, field)
    pieces = value.strip().split("\n" if "\n" in value.strip() else ";")
    return texts([piece for piece in pieces if piece.strip()], field)


def split_shared(
    a: Conversation, b: Conversation, fields: tuple[str, str]
) -> tuple[Conversation, Conversation, Conversation]:
    """Prompt, response A and response B of two whole conversations; ``fields`` are their names for the error."""
    try:
        return conversations({"model_a": a, "model_b": b})
    except RecordError:
        raise RecordError(
            fields[1], f"shares no leading turns with {fields[0]} that an assistant's turn follows in both"
        ) from None


def identity(given: Any, field: str, repeats: Counter[str], *content: object) -> str:
    """The id given as text or as a whole number, or else a digest (16 hex digits) of texts and messages.

    Equal rows without an id are several votes: ``repeats`` counts digests over all that is read, and from the second
    on they are numbered.
    """
    if given is None:
        written = json.dumps(content, default=lambda message: [message.role, message.content])
        return numbered(hashlib.sha256(written.encode("utf-8")).hexdigest()[:16], repeats)
    if isinstance(given, bool) or not isinstance(given, (str, int)) or not str(given).strip():
        raise RecordError(field, f"expected a whole number or a non-blank text, got {given!r:.80}")
    return str(given).strip()


def numbered(name: str, repeats: Counter[str]) -> str:
    """``name``, and from its second time on ``name-2``, ``name-3``, ..."""
    repeats[name] += 1
    return name if repeats[name] == 1 else f"{name}-{repeats[name]}"


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
