"""Published evaluation rows. In: rows of `FIELDS`. Out: `Preference` records.

``model_a`` and ``model_b`` are whole conversations, or only the replies where they start with the assistant; ``prompt``
is the first user turn. ``criteria`` speak for the preferred side, so the other side's are empty and only the original
direction is defined. For a tie they stand on both sides: whichever side is asked about, nobody wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crm.schema import Preference, RecordError, messages
from crm.votes.public.published import Conversation, conversations, require, string_list, winner
from crm.votes.row_reader import Row, rows_of
from crm.votes.sampling import turn

FIELDS = ("idx", "prompt", "model_a", "model_b", "criteria", "preference")


def parse_row(row: Row, _at: object) -> Preference:
    """One row as a record with the id ``eval-<idx>``. Raises `RecordError`."""
    require(row, FIELDS)
    if isinstance(row["idx"], bool) or not isinstance(row["idx"], (int, str)) or row["idx"] == "":
        raise RecordError("idx", f"expected a number or a name, got {type(row['idx']).__name__}")
    side = winner(row["preference"], "preference")
    criteria = string_list(row["criteria"], "criteria")
    if not criteria:
        raise RecordError("criteria", "empty; an evaluation row needs at least one")
    prompt, response_a, response_b = _turns(row)
    return Preference(
        id=f"eval-{row['idx']}",
        prompt=prompt,
        response_a=response_a,
        response_b=response_b,
        winner=side,
        criteria_a=criteria if side in ("a", "tie") else (),
        criteria_b=criteria if side in ("b", "tie") else (),
        source="eval_rows",
    )


def _count(row: Row, _records: Sequence[Preference]) -> Mapping[str, int]:
    return {
        "criteria_given_as_text": isinstance(row["criteria"], str),
        "rows_with_unknown_fields": not row.keys() <= set(FIELDS),
    }


read = rows_of(count=_count)(parse_row)
"""Records of one file, or of every data file of a folder."""


def _turns(row: Row) -> tuple[Conversation, Conversation, Conversation]:
    query = row["prompt"]
    if not isinstance(query, str):
        raise RecordError("prompt", f"expected text, got {type(query).__name__}")
    a, b = messages(row["model_a"], "model_a"), messages(row["model_b"], "model_b")
    if a[0].role == b[0].role == "assistant":
        return turn("user", query), a, b
    prompt, response_a, response_b = conversations(row)
    first = next((message.content for message in prompt if message.role == "user"), None)
    if first is None or first.split() != query.split():
        raise RecordError("prompt", "differs from the first user turn of model_a and model_b")
    return prompt, response_a, response_b
