"""What the readers of files of one's own share. In: cells of a row. Out: conversations, ids, pairs.

- A text is one turn, unless it is the JSON text of a list of messages (it starts with ``[{`` and holds roles): tables
  keep conversations that way. A text that looks like such a list but cannot be read as one is refused, not taken as it
  stands. Other JSON is plain text: a response may well be JSON.
- Which side stands as A depends on the record's id alone.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from crm.io.untrusted import check_row, decode
from crm.schema import Preference, RecordError, messages, texts
from crm.votes.public.published import Conversation, conversations, string_list
from crm.votes.sampling import fraction, turn, wordings

_ROLES_INSIDE = re.compile(r"""\A\s*\[\s*\{.*["']role["']\s*:""", re.DOTALL)


def turns(value: Any, field: str, role: str) -> Conversation:
    """A conversation: one turn of ``role`` where ``value`` is text, else its messages. Raises `RecordError`."""
    if isinstance(value, str) and not _ROLES_INSIDE.match(value):
        return turn(role, value)
    if isinstance(value, (str, list)):
        return messages(items(value, field), field)
    raise RecordError(field, f"expected text or a list of messages, got {type(value).__name__}")


def asked(value: Any, field: str) -> Conversation:
    """A prompt, as `turns` of the user; blank text is refused, as an empty cell is most often a missing one."""
    if isinstance(value, str) and not value.strip():
        raise RecordError(field, "blank")
    return turns(value, field, "user")


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


def text(value: Any, field: str) -> str:
    """Text, possibly empty. Raises `RecordError`."""
    if not isinstance(value, str):
        raise RecordError(field, f"expected text, got {'null' if value is None else type(value).__name__}")
    return value


def optional_text(value: Any, field: str) -> str | None:
    """Text without the white space around it; ``None`` for null and for blank text. Raises `RecordError`."""
    return None if value is None else text(value, field).strip() or None


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


def identity(given: Any, field: str, *content: object) -> str:
    """The id given as text or as a whole number, or else a digest (16 hex digits) of texts and messages."""
    if given is None:
        written = json.dumps(content, default=lambda message: [message.role, message.content])
        return hashlib.sha256(written.encode("utf-8")).hexdigest()[:16]
    if isinstance(given, bool) or not isinstance(given, (str, int)) or not str(given).strip():
        raise RecordError(field, f"expected a whole number or a non-blank text, got {given!r:.80}")
    return str(given).strip()


def chosen_pair(
    name: str,
    prompt: Conversation,
    chosen: Conversation,
    rejected: Conversation,
    *,
    source: str,
    topic: str | None = None,
    authors: tuple[str | None, str | None] = (None, None),
    criteria: tuple[str, ...] = (),
    criteria_rejected: tuple[str, ...] = (),
    criteria_topic: str | None = None,
    reason: str | None = None,
    first: bool | None = None,
) -> Preference:
    """The record of a chosen and a rejected response; ``authors`` are theirs, ``criteria`` speak for the chosen one.

    ``criteria_topic`` is that of each of ``criteria``. The chosen one stands as A if it is ``first``; ``None`` draws.
    """
    first = fraction(0, name, "side") < 0.5 if first is None else first
    topics = () if criteria_topic is None else (criteria_topic,) * len(criteria)
    return Preference(
        id=name,
        prompt=prompt,
        response_a=chosen if first else rejected,
        response_b=rejected if first else chosen,
        winner="a" if first else "b",
        criteria_a=criteria if first else criteria_rejected,
        criteria_b=criteria_rejected if first else criteria,
        topic=topic,
        criteria_topics_a=topics if first else (),
        criteria_topics_b=() if first else topics,
        author_a=authors[0] if first else authors[1],
        author_b=authors[1] if first else authors[0],
        source=source,
        reason=reason,
    )


def wished_pair(
    name: str,
    prompt: Conversation,
    answers: Mapping[str, str],
    bank: Mapping[str, Sequence[str]],
    *,
    source: str,
    seed: int,
    drawn_by: str | None = None,
    author: str | None = None,
) -> Preference:
    """The flip pair of two answers, by the wish that each was written to: one or two wordings of it are its criteria.

    Nobody voted, so ``winner`` is a coin and only names the original direction. Draws are by ``seed`` and the name
    (``drawn_by`` where it is given).
    """
    draw = name if drawn_by is None else drawn_by
    first, second = answers
    a, b = (first, second) if fraction(seed, draw, "side") < 0.5 else (second, first)
    return Preference(
        id=name,
        prompt=prompt,
        response_a=turn("assistant", answers[a]),
        response_b=turn("assistant", answers[b]),
        winner="a" if fraction(seed, draw, "winner") < 0.5 else "b",
        criteria_a=wordings(bank[a], seed, draw, a),
        criteria_b=wordings(bank[b], seed, draw, b),
        criteria_topics_a=(a,),
        criteria_topics_b=(b,),
        author_a=author,
        author_b=author,
        source=source,
    )
