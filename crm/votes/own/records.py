"""One's own preferences in the fields of `crm.schema.Preference`; those with a default may be left out."""

from __future__ import annotations

from crm.schema import Preference, RecordError
from crm.votes.row_reader import Row, rows_of


@rows_of(drop_identical=True)
def read(row: Row, _at: object) -> Preference:
    """Records of one file, or of every data file of a folder; ids are unique in each file."""
    record = Preference.from_dict(row)
    if not record.id.strip():
        raise RecordError("id", "blank")
    return record
