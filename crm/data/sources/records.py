"""One's own preferences. In: JSONL of `crm.schema.Preference` fields. Out: `Splits`.

Required: ``id`` (unique), ``prompt``, ``response_a``, ``response_b``, ``winner``. The others may be left out; unknown
fields are refused, and so is null where it does not mean "unknown" (``topic``, ``author_a``, ``author_b``).
Split by prompt, near-duplicates together: by default 80 train, 10 validation, 10 suite ``D`` (in 100).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crm.data.files import read_records
from crm.data.sources import Splits, split_records
from crm.schema import Preference, RecordError

NULLABLE = ("topic", "author_a", "author_b")


def load(path: str | Path, *, seed: int = 0, strict: bool = True, validation: float = 0.1, test: float = 0.1) -> Splits:
    """Read one file; ``validation`` and ``test`` are shares of the prompts, [0, 1), below 1 together.

    Raises ``ValueError`` as `read_records` and `crm.data.splits.split_by_prompt` do.
    """
    report = read_records(path, parse_row, strict=strict)
    counts = {"ties": sum(row.winner == "tie" for row in report.records)}
    return split_records(report, counts, seed=seed, validation=validation, test=test)


def parse_row(row: dict[str, Any], _line: int) -> Preference:
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
