"""Checked fields of a row: pydantic types for public sets, functions for cells of files of one's own.

In files of one's own a text is one turn, and a list is messages. Tables keep such lists as text, in JSON or as Python
prints it, which is read (literals only, nothing is executed).
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import warnings
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic_core import PydanticCustomError

from crm.io.rows import decode
from crm.schema import Message, RecordError, messages, short, texts
from crm.votes.sampling import turn

Conversation = tuple[Message, ...]
_MESSAGES = re.compile(r"""\s*\[\s*\{\s*["'](role|content)["']\s*:""")
"""How a text that is a list of messages begins."""


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "expected a non-blank text")
    return text


Text = Annotated[str, AfterValidator(_not_blank)]
"""Text that is not blank, white space and all."""


class PublicRow(BaseModel):
    """A row of a public set: its fields are what is read, others are left alone."""

    model_config = ConfigDict(strict=True, frozen=True, populate_by_name=True)


def require(row: Mapping[str, Any], names: tuple[str, ...], null: str = "null") -> None:
    """Raise `RecordError` for the first field that is missing or null; ``null`` is what the file has in its place."""
    for name in names:
        if row.get(name) is None:
            raise RecordError(name, null if name in row else "missing")


def turns(value: Any, field: str, role: str) -> Conversation:
    """A conversation: one turn of ``role`` where ``value`` is text, else its messages. Raises `RecordError`."""
    if isinstance(value, str) and not _MESSAGES.match(value):
        return turn(role, value)
    if isinstance(value, (str, list)):
        return messages(items(value, field), field)
    raise RecordError(field, f"expected text or a list of messages, got {type(value).__name__}")


def asked(value: Any, field: str) -> Conversation:
    """A prompt, as `turns` of the user; blank text is an error, as an empty cell is most often a missing one."""
    if isinstance(value, str) and not value.strip():
        raise RecordError(field, "blank")
    return turns(value, field, "user")


def items(value: Any, field: str) -> list[Any]:
    """A list, given as one or as its text. Raises `RecordError`."""
    if isinstance(value, str):
        value = _literal(value, field)
    if not isinstance(value, list):
        raise RecordError(field, f"expected a list, got {type(value).__name__}")
    return value


def _literal(text: str, field: str) -> Any:
    try:
        return decode(text)
    except RecordError as error:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                found = ast.literal_eval(text.strip())
            json.dumps(found, ensure_ascii=False).encode("utf-8")  # escapes can spell half a character
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            raise RecordError(field, f"{error.why}; a list in a text must be JSON (Python: json.dumps)") from None
        return found


def any_text(value: Any, field: str) -> str:
    """Text, possibly empty. Raises `RecordError`."""
    if not isinstance(value, str):
        raise RecordError(field, f"expected text, got {'null' if value is None else type(value).__name__}")
    return value


def optional_text(value: Any, field: str) -> str | None:
    """Text without the white space around it; ``None`` for null and for blank text. Raises `RecordError`."""
    return None if value is None else any_text(value, field).strip() or None


def string_list(value: Any, field: str) -> tuple[str, ...]:
    """A list of non-blank strings, given as a list or as the text of one; possibly empty. Raises `RecordError`."""
    if isinstance(value, str):
        if not value.strip().startswith("["):
            raise RecordError(field, f'a string, not a list: {short(value)}; write it as ["..."]')
        value = items(value, field)
    return texts(value, field)


def criteria_cell(value: Any, field: str) -> tuple[str, ...]:
    """Criteria: a list of texts or its text, or a text with one a line; of one line, split at its semicolons.

    Null and blank text are no criteria. Raises `RecordError`.
    """
    if not isinstance(value, str) or value.strip().startswith("["):
        return string_list(value, field)
    pieces = value.strip().split("\n" if "\n" in value.strip() else ";")
    return texts([piece for piece in pieces if piece.strip()], field)


def split_shared(
    a: Conversation, b: Conversation, fields: tuple[str, str]
) -> tuple[Conversation, Conversation, Conversation]:
    """Prompt, response A and response B of two whole conversations; ``fields`` are their names for the error.

    The prompt is the leading turns that both share, up to where both continue with the assistant.
    """
    shared = 0
    while shared < min(len(a), len(b)) and a[shared] == b[shared]:
        shared += 1
    while shared > 0 and not (_assistant_at(a, shared) and _assistant_at(b, shared)):
        shared -= 1
    if shared == 0:
        why = f"shares no leading turns with {fields[0]} that an assistant's turn follows in both"
        raise RecordError(fields[1], why)
    return a[:shared], a[shared:], b[shared:]


def _assistant_at(turns: Conversation, index: int) -> bool:
    return index < len(turns) and turns[index].role == "assistant"


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
