"""Preferences as TRL's trainers take them: rows with ``chosen`` and ``rejected``.

- ``prompt`` given: ``chosen`` and ``rejected`` continue it. Each of the three is text or a list of messages.
- ``prompt`` is text and the other two are whole conversations that start with the user: their shared leading turns are
  the prompt, and the text must be one of its user turns.
- no ``prompt`` ("implicit prompt"): the leading turns that both conversations share. Two plain texts are an error:
  nobody can tell the prompt from two responses that merely start alike.

``criteria`` (of the user who chose) and ``criteria_rejected`` (of one who would choose the other response) are
optional, each a list of texts or one text, as in a table. ``id`` is optional: else it is a digest of the content,
numbered where rows are equal. Which side is A is drawn. Other columns are not read; rows that have any are counted, and
rows with images are bad rows. See https://huggingface.co/docs/trl/dataset_formats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crm.schema import Preference, RecordError, folded
from crm.votes.fields import Conversation, asked, criteria_cell, identity, require, split_shared, turns
from crm.votes.public.pairs import chosen_pair
from crm.votes.row_reader import At, Row, rows_of

SIDES = ("chosen", "rejected")
CRITERIA = ("criteria", "criteria_rejected")
FIELDS = ("id", "prompt", *SIDES, *CRITERIA)


def _count(row: Row, records: Sequence[Preference]) -> Mapping[str, int]:
    return {
        "rows_with_implicit_prompt": row.get("prompt") is None,
        "rows_with_criteria": any(record.criteria_a or record.criteria_b for record in records),
        "rows_with_unread_fields": not row.keys() <= set(FIELDS),
    }


@rows_of(count=_count, drop_identical=True)
def read(row: Row, at: At) -> Preference:
    """Records of one file, or of every data file of a folder; ids are unique in each file."""
    require(row, SIDES)
    for name in ("image", "images"):
        if row.get(name):
            raise RecordError(name, "the row has images; only text is read")
    prompt, chosen, rejected = _parts(row)
    given, against = (criteria_cell(row.get(name), name) for name in CRITERIA)
    criteria = (given, against) if given or against else ()  # two users may say different things of one pair
    name = f"trl-{identity(row.get('id'), 'id', at.repeats, prompt, chosen, rejected, *criteria)}"
    return chosen_pair(name, prompt, chosen, rejected, source="trl", criteria=given, criteria_rejected=against)


def _parts(row: Row) -> tuple[Conversation, Conversation, Conversation]:
    """Prompt, chosen and rejected."""
    chosen, rejected = (turns(row[name], name, "assistant") for name in SIDES)
    if row.get("prompt") is None:
        if "assistant" in (chosen[0].role, rejected[0].role):
            why = "missing, and chosen or rejected is no whole conversation: nobody can tell where the prompt ends"
            raise RecordError("prompt", why)
        return split_shared(chosen, rejected, SIDES)
    prompt = asked(row["prompt"], "prompt")
    if isinstance(row["prompt"], str) and chosen[0].role != "assistant":
        shared, chosen, rejected = split_shared(chosen, rejected, SIDES)
        questions = {folded(turn.content) for turn in shared if turn.role == "user"}
        if folded(row["prompt"]) not in questions and prompt != shared:
            raise RecordError("prompt", "is no user turn of the conversations in chosen and rejected")
        return shared, chosen, rejected
    for name, response in zip(SIDES, (chosen, rejected), strict=True):
        if response[0].role != "assistant":
            why = f"starts with the {response[0].role}'s turn; leave prompt out where conversations are whole"
            raise RecordError(name, why)
    return prompt, chosen, rejected
