"""Preferences as TRL's trainers take them. In: rows with ``chosen`` and ``rejected``. Out: `Preference` records.

- ``prompt`` given: ``chosen`` and ``rejected`` continue it. Each of the three is text or a list of messages.
- ``prompt`` is text and the other two are whole conversations that start with the user: their shared leading turns are
  the prompt, and the text must be one of its user turns.
- no ``prompt`` ("implicit prompt"): the leading turns that both conversations share. Two plain texts are refused: where
  the prompt ends cannot be told from where two responses merely start alike.

``criteria`` is optional: what the user who chose cares about; ``criteria_rejected`` is what one who would choose the
other response cares about. Each is a list of texts or one text, as in a table (`crm.votes.own.table`). ``id`` is
optional: else it is a digest of the content, numbered where rows are equal. Which side stands as A is drawn.
``margin``, scores and other columns are not read; rows that have any are counted. Rows with images are refused.
Source: TRL, "Dataset formats and types", https://huggingface.co/docs/trl/dataset_formats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crm.schema import Preference, RecordError, folded
from crm.votes.fields import Conversation, asked, criteria_cell, identity, require, split_shared, turns
from crm.votes.public.pairs import chosen_pair
from crm.votes.row_reader import At, Row, rows_of

CRITERIA = ("criteria", "criteria_rejected")
FIELDS = ("id", "prompt", "chosen", "rejected", *CRITERIA)
IMAGES = ("image", "images")


def parse_row(row: Row, at: At) -> Preference:
    """One row as a record with the id ``trl-<id or digest>``. Raises `RecordError`."""
    require(row, ("chosen", "rejected"))
    for name in IMAGES:
        if row.get(name):
            raise RecordError(name, "the row comes with images; only text is read")
    prompt, chosen, rejected = _implicit(row) if row.get("prompt") is None else _explicit(row)
    given, against = (criteria_cell(row.get(name), name) for name in CRITERIA)
    told = (given, against) if given or against else ()  # two users may say different things of one pair
    name = f"trl-{identity(row.get('id'), 'id', at.repeats, prompt, chosen, rejected, *told)}"
    return chosen_pair(name, prompt, chosen, rejected, source="trl", criteria=given, criteria_rejected=against)


def _count(row: Row, records: Sequence[Preference]) -> Mapping[str, int]:
    return {
        "rows_with_implicit_prompt": row.get("prompt") is None,
        "rows_with_criteria": any(record.criteria_a or record.criteria_b for record in records),
        "rows_with_unread_fields": not row.keys() <= set(FIELDS),
    }


read = rows_of(count=_count, drop_identical=True, turns=(("prompt",), ("chosen", "rejected")))(parse_row)
"""Records of one file, or of every data file of a folder; ids are unique in each file."""


def _explicit(row: Row) -> tuple[Conversation, Conversation, Conversation]:
    prompt = asked(row["prompt"], "prompt")
    chosen, rejected = (turns(row[name], name, "assistant") for name in ("chosen", "rejected"))
    if isinstance(row["prompt"], str) and chosen[0].role != "assistant":
        shared, chosen, rejected = split_shared(chosen, rejected, ("chosen", "rejected"))
        questions = {folded(turn.content) for turn in shared if turn.role == "user"}
        if folded(row["prompt"]) not in questions and prompt != shared:
            raise RecordError("prompt", "is no user turn of the conversations in chosen and rejected")
        return shared, chosen, rejected
    for name, response in (("chosen", chosen), ("rejected", rejected)):
        if response[0].role != "assistant":
            raise RecordError(
                name, f"starts with the {response[0].role}'s turn; leave prompt out where conversations are whole"
            )
    return prompt, chosen, rejected


def _implicit(row: Row) -> tuple[Conversation, Conversation, Conversation]:
    chosen, rejected = (turns(row[name], name, "assistant") for name in ("chosen", "rejected"))
    if chosen[0].role == "assistant" or rejected[0].role == "assistant":
        raise RecordError(
            "prompt",
            "missing, and chosen or rejected is no whole conversation: where a prompt ends in them cannot be told",
        )
    return split_shared(chosen, rejected, ("chosen", "rejected"))
