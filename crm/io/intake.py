"""Rows of files as records: bad rows are counted, with file, line, field and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from crm.io import rows as formats
from crm.io.rows import printable
from crm.schema import Preference, RecordError

R = TypeVar("R")
MAX_SHOWN = 1_000
"""Rejections kept to be shown; all are counted."""


@dataclass(frozen=True)
class Rejection:
    """A bad row: ``line`` counts from 1 (in an array file: the item), ``field`` is ``row`` for the whole row."""

    file: str
    line: int
    field: str
    why: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {printable(self.field)}: {printable(self.why, 1_000)}"


class Intake:
    """Reads rows and counts what became of them, over one or several files.

    Strict reading stops at the first bad row with a ``ValueError``; lenient reading leaves it out. ``kept`` rows
    became records, ``rejected`` were bad; ``counts`` is for whatever else a source counts.
    """

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self.kept = self.rejected = 0
        self.rejections: list[Rejection] = []
        self.counts: Counter[str] = Counter()

    @property
    def read(self) -> int:
        """Rows that came in."""
        return self.kept + self.rejected

    def rows(
        self, path: Path, parse: Callable[[dict[str, Any], int], R], key: Callable[[R], object] | None = None
    ) -> Iterator[R]:
        """Pass the rows of a file through ``parse(row, number)``, which may raise `RecordError` (or pydantic's error).

        ``key`` gives what must be unique in the file (default: the record's ``id`` where it has one).
        """
        first_line: dict[object, int] = {}
        for number, row in formats.rows(path):
            try:
                if isinstance(row, RecordError):
                    raise row
                if not isinstance(row, dict):
                    raise RecordError("row", f"expected a JSON object, got {type(row).__name__}")
                record = parse(row, number)
                name = key(record) if key else getattr(record, "id", None)
                first = number if name is None else first_line.setdefault(name, number)
                if first != number:
                    why = f"{name!r} is already on line {first}; ids must be unique (data.strict=false leaves it out)"
                    raise RecordError("id", why)
            except (RecordError, ValidationError) as error:
                wrong = RecordError.of(error.errors(include_url=False)) if isinstance(error, ValidationError) else error
                self._reject(Rejection(str(path), number, wrong.field, wrong.why))
            else:
                self.kept += 1
                yield record

    def unique(self, records: Iterable[Preference]) -> Iterator[Preference]:
        """Records whose id is new over all files; another is a bad row."""
        seen: set[str] = set()
        for record in records:
            if record.id not in seen:
                seen.add(record.id)
                yield record
                continue
            why = f"{record.id!r} is also in another file; leave the copy out, or give the rows different ids"
            self.kept -= 1
            self._reject(Rejection("data", 0, "id", why))

    def _reject(self, rejection: Rejection) -> None:
        if self.strict:
            raise ValueError(str(rejection))
        self.rejected += 1
        if len(self.rejections) < MAX_SHOWN:
            self.rejections.append(rejection)

    def all_counts(self) -> dict[str, int]:
        """``read``, ``rejected`` and the source's own counts."""
        return {"read": self.read, "rejected": self.rejected, **self.counts}
