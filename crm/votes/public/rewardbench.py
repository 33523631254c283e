"""RewardBench and RewardBench 2, without criteria.

A row is of RewardBench 2 where ``chosen`` is a list or there is a column ``num_correct``.

- RewardBench (arXiv 2403.13787): ``chosen`` and ``rejected`` are texts: one record, with the models as authors.
- RewardBench 2 (arXiv 2506.01937): ``chosen`` and ``rejected`` are lists of texts. Every rejected response is paired
  once, with a chosen one drawn by the id: three records for most rows, which have one chosen and three rejected. All
  pairs would let the subset Ties, with up to 26 correct responses a row, outweigh all others; the pairs not made are
  counted (``pairs_not_made``). The set's own score asks for the best of four at once, so it is not the share of these
  pairs. ``models`` is not read: it does not say which response is whose.

The topic is the subset. Which side is A is drawn; counts of read and kept are of rows, ``pairs`` of records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crm.schema import Preference, RecordError
from crm.votes.fields import any_text, asked, identity, items, optional_text, require
from crm.votes.public.pairs import chosen_pair
from crm.votes.row_reader import At, Row, rows_of
from crm.votes.sampling import fraction, turn

SIDES = ("chosen", "rejected")


def _several(row: Row) -> bool:
    return isinstance(row["chosen"], list) or "num_correct" in row


def _count(row: Row, records: Sequence[Preference]) -> Mapping[str, int]:
    chosen = len(items(row["chosen"], "chosen")) if _several(row) else 1
    return {"pairs": len(records), "pairs_not_made": (chosen - 1) * len(records)}


@rows_of(count=_count, drop_identical=True)
def read(row: Row, at: At) -> list[Preference]:
    """Records ``rewardbench-<id>`` or ``rewardbench-<id>-<n>`` of a file or a folder."""
    require(row, ("prompt", *SIDES))
    prompt, several = asked(row["prompt"], "prompt"), _several(row)
    chosen, rejected = (
        [turn("assistant", any_text(text, side)) for text in (items(row[side], side) if several else [row[side]])]
        for side in SIDES
    )
    for side, responses in zip(SIDES, (chosen, rejected), strict=True):
        if not responses:
            raise RecordError(side, "an empty list; expected at least one response")
    name = f"rewardbench-{identity(row.get('id'), 'id', at.repeats, prompt, *chosen, *rejected)}"
    authors = [optional_text(row.get(f"{side}_model"), f"{side}_model") for side in SIDES]
    records = []
    for number, response in enumerate(rejected):
        own = f"{name}-{number}" if several else name
        drawn = chosen[int(fraction(0, own, "chosen") * len(chosen))]
        topic = optional_text(row.get("subset"), "subset")
        pair = chosen_pair(own, prompt, drawn, response, source="rewardbench", topic=topic, authors=(*authors,))  # type: ignore[arg-type]
        records.append(pair)
    return records
