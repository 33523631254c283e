"""RewardBench and RewardBench 2. In: their rows. Out: `Preference` records without criteria.

A row is of RewardBench 2 where ``chosen`` is a list or there is a column ``num_correct``.

- RewardBench (arXiv 2403.13787): ``chosen`` and ``rejected`` are texts: one record, with the models as authors.
- RewardBench 2 (arXiv 2506.01937): ``chosen`` and ``rejected`` are lists of texts. Every rejected response is paired
  once, with a chosen one drawn by the id: three records for most rows, which have one chosen and three rejected. All
  pairs would let the subset Ties, with up to 26 correct responses a row, outweigh all others; the pairs not made are
  counted (``pairs_not_made``). The set's own score asks for the best of four at once, so it is not the share of these
  pairs. ``models`` is not read: which response is whose is not said.

The topic is the subset. Which side stands as A is drawn; counts of read and kept are of rows, ``pairs`` of records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crm.schema import Preference, RecordError
from crm.votes.fields import Conversation, any_text, asked, identity, items, optional_text, require
from crm.votes.public.pairs import chosen_pair
from crm.votes.row_reader import At, Row, rows_of
from crm.votes.sampling import fraction, turn

SIDES = ("chosen", "rejected")


def parse_row(row: Row, at: At) -> list[Preference]:
    """One row as one or several records: ``rewardbench-<id>`` or ``rewardbench-<id>-<n>``. Raises `RecordError`."""
    require(row, ("prompt", "chosen", "rejected"))
    prompt = asked(row["prompt"], "prompt")
    several = _several(row)
    chosen, rejected = (_responses(row[name], name) if several else [_response(row[name], name)] for name in SIDES)
    name = f"rewardbench-{identity(row.get('id'), 'id', at.repeats, prompt, *chosen, *rejected)}"
    authors = [optional_text(row.get(f"{side}_model"), f"{side}_model") for side in SIDES]
    topic = optional_text(row.get("subset"), "subset")
    records = []
    for number, response in enumerate(rejected):
        own = f"{name}-{number}" if several else name
        records.append(
            chosen_pair(
                own,
                prompt,
                chosen[int(fraction(0, own, "chosen") * len(chosen))],
                response,
                source="rewardbench",
                topic=topic,
                authors=(authors[0], authors[1]),
            )
        )
    return records


def _count(row: Row, records: Sequence[Preference]) -> Mapping[str, int]:
    chosen = len(items(row["chosen"], "chosen")) if _several(row) else 1
    return {"pairs": len(records), "pairs_not_made": (chosen - 1) * len(records)}


read = rows_of(count=_count, drop_identical=True, turns=(("prompt",),))(parse_row)
"""Records of one file, or of every data file of a folder; the rows' ids are unique in each file."""


def _several(row: Row) -> bool:
    return isinstance(row["chosen"], list) or "num_correct" in row


def _response(value: Any, field: str) -> Conversation:
    return turn("assistant", any_text(value, field))


def _responses(values: Any, field: str) -> list[Conversation]:
    responses = [_response(value, f"{field}[{number}]") for number, value in enumerate(items(values, field))]
    if not responses:
        raise RecordError(field, "an empty list; expected at least one response")
    return responses
