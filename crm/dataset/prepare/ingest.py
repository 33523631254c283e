"""First stage. In: a source's files. Out: its records in one Parquet file, streamed; the refused rows as a list."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from crm.dataset.prepare.workspace import Workspace
from crm.io.files import replace_file
from crm.io.intake import MAX_SHOWN, Intake
from crm.io.parquet import write_parquet
from crm.schema import Preference


def ingest(space: Workspace, rows: Iterable[Preference], reading: Intake) -> dict[str, int]:
    """Write the records that stream out of a source; ``reading`` is what the source counts into.

    Counts: ``read`` rows, of which ``rejected``; ``preferences`` made of the others; what the source itself counts;
    ``ties`` and ``with_criteria`` among the preferences. The first `MAX_SHOWN` refusals go to ``rejected.csv``.
    Raises ``ValueError`` where nothing is left, and where rows of two files have one id (``strict=false``: the later
    row is rejected).
    """
    seen: Counter[str] = Counter(ties=0, with_criteria=0)

    def counted() -> Iterator[Preference]:
        for row in reading.unique(rows):
            seen["ties"] += row.winner == "tie"
            seen["with_criteria"] += bool(row.criteria_a or row.criteria_b)
            yield row

    made = write_parquet(space.findings("ingest"), Preference, counted())
    if not made:
        raise ValueError(f"data: no preference could be made of {reading.read} rows ({_first(reading)})")
    replace_file(rejections_file(space), _listing(reading))
    return {**(reading.all_counts() if reading.read else {}), "preferences": made, **seen}


def rejections_file(space: Workspace) -> Path:
    """Where the refused rows are listed."""
    return space.stages / "rejected.csv"


def _listing(reading: Intake) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["file", "line", "field", "why"])
    writer.writerows([row.file, row.line, row.field, row.why] for row in reading.rejections)
    if reading.rejected > MAX_SHOWN:
        writer.writerow(["", "", "", f"and {reading.rejected - MAX_SHOWN:,} more"])
    return out.getvalue()


def _first(reading: Intake) -> str:
    return f"first refusal: {reading.rejections[0]}" if reading.rejections else "nothing was refused: the file is empty"
