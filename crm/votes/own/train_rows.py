"""Published training rows. In: rows of `FIELDS`, whole conversations on both sides. Out: `Preference` records.

Rows carry no id: theirs is a digest of their content, so an exact copy of a row is a duplicate id. A side may have no
criteria (its direction is then not defined), but not both. Broad topics are lists of names, or the text of such a list,
or one name.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from crm.schema import Preference, RecordError
from crm.votes.public.published import conversations, require, string_list, winner
from crm.votes.row_reader import Row, rows_of

FIELDS = (
    "model_a",
    "model_b",
    "human_winner",
    "a_criteria",
    "b_criteria",
    "a_broad_criteria_topic",
    "b_broad_criteria_topic",
)


def parse_row(row: Row, _at: object) -> Preference:
    """One row as a record with the id ``train-<digest>``. Raises `RecordError`."""
    require(row, FIELDS)
    side = winner(row["human_winner"], "human_winner")
    criteria_a, criteria_b = (string_list(row[name], name) for name in ("a_criteria", "b_criteria"))
    if not criteria_a and not criteria_b:
        raise RecordError("a_criteria", "empty, and b_criteria too; a training row needs criteria on one side at least")
    prompt, response_a, response_b = conversations(row)
    content = json.dumps({name: row[name] for name in FIELDS}, sort_keys=True)
    return Preference(
        id=f"train-{hashlib.sha256(content.encode('utf-8')).hexdigest()[:16]}",
        prompt=prompt,
        response_a=response_a,
        response_b=response_b,
        winner=side,
        criteria_a=criteria_a,
        criteria_b=criteria_b,
        criteria_topics_a=_topics(row["a_broad_criteria_topic"], "a_broad_criteria_topic"),
        criteria_topics_b=_topics(row["b_broad_criteria_topic"], "b_broad_criteria_topic"),
        source="train_rows",
    )


def _count(row: Row, _records: Sequence[Preference]) -> Mapping[str, int]:
    return {
        "criteria_given_as_text": isinstance(row["a_criteria"], str) or isinstance(row["b_criteria"], str),
        "rows_with_unknown_fields": not row.keys() <= set(FIELDS),
    }


read = rows_of(count=_count)(parse_row)
"""Records of one file, or of every data file of a folder; exact copies within a file are refused."""


def _topics(value: object, field: str) -> tuple[str, ...]:
    if isinstance(value, str) and not value.strip().startswith("["):
        return string_list([value], field)
    return string_list(value, field)
