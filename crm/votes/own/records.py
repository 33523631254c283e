"""One's own preferences. In: rows of `crm.schema.Preference` fields. Out: the records.

Required: ``id`` (unique), ``prompt``, ``response_a``, ``response_b``, ``winner``. The others may be left out; unknown
fields are refused, and so is null where it does not mean "unknown" (``topic``, ``author_a``, ``author_b``, ``reason``).
"""

from __future__ import annotations

from crm.schema import Preference, RecordError
from crm.votes.row_reader import Row, rows_of

NULLABLE = ("topic", "author_a", "author_b", "reason")


def parse_row(row: Row, _at: object) -> Preference:
    """One row as a record. Raises `RecordError`."""
    for name in ("id", "prompt", "response_a", "response_b", "winner"):
        if name not in row:
            raise RecordError(name, "missing")
    for name, value in row.items():
        if value is None and name not in NULLABLE:
            raise RecordError(name, "null; leave an optional field out instead")
    for name in ("id", "source", *NULLABLE):
        value = row.get(name)
        if value is not None and not isinstance(value, str):
            raise RecordError(name, f"expected text, got {type(value).__name__}")
    if not row["id"].strip():
        raise RecordError("id", "blank")
    record: Preference = Preference.from_dict(row)
    return record


read = rows_of(drop_identical=True)(parse_row)
"""Records of one file, or of every data file of a folder; ids are unique in each file."""
