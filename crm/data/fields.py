"""Readers of rows: checked fields, and how a function of one row becomes the reader of a source.

In files of one's own a text is one turn, and a list is messages. Tables keep such lists as text, in JSON or as Python
prints it (literals only, nothing is executed).
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, StringConstraints

from crm.io.draws import turn
from crm.io.rows import Intake, data_files, decode
from crm.schema import Message, Preference, RecordError, Texts, check_response, folded, messages, short, validated

Conversation = tuple[Message, ...]
Row = dict[str, Any]
Cell = tuple[Any, str]
"""A value, and the name of its column."""
Read = Callable[[Path, Intake], Iterator[Preference]]
_MESSAGES = re.compile(r"""\s*\[\s*\{\s*["'](role|content)["']\s*:""")
"""How a text that is a list of messages begins."""
_MARKS = re.compile(r"(?:\A\s*|\n\n)(Human|Assistant):[ \n]?")


Text = Annotated[str, StringConstraints(pattern=r"\S")]
"""Text that is not blank, white space and all."""


class PublicRow(BaseModel):
    """A row of a public set: its fields are what is read, others are left alone."""

    model_config = ConfigDict(strict=True, frozen=True, populate_by_name=True)


class At(NamedTuple):
    """The place of a row, and counts over all files of its source."""

    file: Path
    number: int
    repeats: Counter[str]
    """Digests of rows without an id: see `identity`."""
    counts: Counter[str]


def rows_of(
    *places: str, model: type[PublicRow] | None = None, drop_identical: bool = False
) -> Callable[[Callable[[Any, At], Preference | Sequence[Preference]]], Read]:
    """Make a ``read`` of a function that turns a row into its record or records, or raises `RecordError`.

    ``places`` are files and folders of the source, or none for the source itself. A row is a dict, or validated as
    ``model``. ``drop_identical`` leaves out pairs of equal responses.
    """

    def reader(parse: Callable[[Any, At], Preference | Sequence[Preference]]) -> Read:
        def read(source: Path, reading: Intake) -> Iterator[Preference]:
            repeats: Counter[str] = Counter()
            for file in (file for place in places or ("",) for file in data_files(source / place)):

                def records(row: Row, number: int, file: Path = file) -> Preference | Sequence[Preference]:
                    at = At(file, number, repeats, reading.counts)
                    return parse(model.model_validate(row) if model else row, at)

                yield from records_of(file, reading, records, drop_identical)

        return read

    return reader


def records_of(
    file: Path,
    reading: Intake,
    parse: Callable[[Row, int], Preference | Sequence[Preference]],
    drop_identical: bool = True,
) -> Iterator[Preference]:
    """Records of one file, their responses checked, ties and left out pairs of equal responses counted."""

    def checked(row: Row, number: int) -> Sequence[Preference]:
        parsed = parse(row, number)
        found = [parsed] if isinstance(parsed, Preference) else parsed
        for record in found:
            check_response(record.response_a, "response_a")
            check_response(record.response_b, "response_b")
        return found

    for found in reading.rows(file, checked, key=lambda found: found[0].id if found else None):
        for record in found:
            if drop_identical and record.response_a == record.response_b:
                reading.counts["dropped_identical_responses"] += 1
            else:
                reading.counts["ties"] += record.winner == "tie"
                yield record


def require(row: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise `RecordError` for the first field that is missing or null."""
    for name in names:
        if row.get(name) is None:
            raise RecordError(name, "null or an empty cell" if name in row else "missing")


def talk(value: Any, field: str, role: str, marks: bool = True) -> Conversation:
    """A conversation: messages, the turns of a text with Anthropic's hh-rlhf's ``marks``, or a text as one turn.

    ``role`` is that of such a text. A prompt that is blank text is an error, as an empty cell is most often a missing
    one, and an empty last turn of marks is none of it. Raises `RecordError`.
    """
    if isinstance(value, str) and not _MESSAGES.match(value):
        marked = _MARKS.split(value)[1:] if marks and _MARKS.match(value) else []
        if "Assistant" not in marked[::2]:
            if role == "user" and not value.strip():
                raise RecordError(field, "blank")
            return turn(role, value)
        names = ("user" if name == "Human" else "assistant" for name in marked[::2])
        value = [{"role": who, "content": text.strip()} for who, text in zip(names, marked[1::2], strict=True)]
        if role == "user" and not value[-1]["content"]:
            value.pop()
    elif not isinstance(value, str | list):
        raise RecordError(field, f"expected text or a list of messages, got {type(value).__name__}")
    return messages(items(value, field), field)


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
    return () if value is None else validated(Texts, value, field)


def criteria_cell(value: Any, field: str) -> tuple[str, ...]:
    """Criteria: a list of texts or its text, or a text with one a line; of one line, split at its semicolons.

    Null and blank text are no criteria. Raises `RecordError`.
    """
    if isinstance(value, str) and not value.strip().startswith("["):
        value = [piece for piece in value.split("\n" if "\n" in value.strip() else ";") if piece.strip()]
    return string_list(value, field)


def split_shared(
    a: Conversation, b: Conversation, fields: tuple[str, str]
) -> tuple[Conversation, Conversation, Conversation]:
    """Prompt, response A and response B of two whole conversations; ``fields`` are their names for the error.

    The prompt is the leading turns that both share, up to where both continue with the assistant.
    """
    shared = 0
    while shared < min(len(a), len(b)) and a[shared] == b[shared]:
        shared += 1
    while shared > 0 and not all(len(side) > shared and side[shared].role == "assistant" for side in (a, b)):
        shared -= 1
    if shared == 0:
        why = f"shares no leading turns with {fields[0]} that an assistant's turn follows in both"
        raise RecordError(fields[1], why)
    return a[:shared], a[shared:], b[shared:]


def pair_parts(prompt: Cell, first: Cell, second: Cell) -> tuple[Conversation, Conversation, Conversation]:
    """Prompt and responses; these may be whole conversations, which share the prompt or have it as a user's turn.

    Other marks beside a prompt are what a model wrote.
    """
    fields = first[1], second[1]
    one, other = talk(*first, "assistant"), talk(*second, "assistant")
    whole = "assistant" not in (one[0].role, other[0].role)
    if prompt[0] is None:
        if not whole:
            why = f"missing, and {' or '.join(fields)} is no whole conversation: nobody can tell where the prompt ends"
            raise RecordError(prompt[1], why)
        return split_shared(one, other, fields)
    given = talk(*prompt, "user")
    texts = talk(*first, "assistant", marks=False), talk(*second, "assistant", marks=False)
    asked, *turns = ({folded(turn.content) for turn in side} for side in (given, one, other))
    plain = all(text[0].role == "assistant" for text in texts) and not any(asked <= side for side in turns)
    if plain or not whole:
        return given, *texts
    shared, one, other = split_shared(one, other, fields)
    if given != shared and not asked <= {folded(turn.content) for turn in shared if turn.role == "user"}:
        why = f"is no user turn of the conversations in {' and '.join(fields)}; leave it out where these are whole"
        raise RecordError(prompt[1], why)
    return shared, one, other


def under(system: str | None, prompt: Conversation) -> Conversation:
    """The prompt after a system turn, unless it has one."""
    return (Message("system", system), *prompt) if system and prompt[0].role != "system" else prompt


def identity(given: Any, field: str, repeats: Counter[str], *content: object) -> str:
    """The id given as text or as a whole number, or else a digest (16 hex digits) of texts and messages.

    Equal rows without an id are several votes: from the second on they are numbered.
    """
    if given is None:
        written = json.dumps(content, default=lambda message: [message.role, message.content])
        name = hashlib.sha256(written.encode("utf-8")).hexdigest()[:16]
        repeats[name] += 1
        return name if repeats[name] == 1 else f"{name}-{repeats[name]}"
    if isinstance(given, bool) or not isinstance(given, (str, int)) or not str(given).strip():
        raise RecordError(field, f"expected a whole number or a non-blank text, got {given!r:.80}")
    return str(given).strip()
