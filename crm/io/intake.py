"""Rows of files as records: bad rows are counted, with file, line, field and why."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from crm.io import rows as formats
from crm.io.rows import printable
from crm.schema import RecordError

log = logging.getLogger(__name__)
R = TypeVar("R")
MAX_SHOWN, MAX_LOGGED = 1_000, 5
"""Rejections that are listed, and logged; all are counted."""


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
        self._places: dict[object, str] = {}

    @property
    def read(self) -> int:
        """Rows that came in."""
        return self.kept + self.rejected

    def rows(
        self, path: Path, parse: Callable[[dict[str, Any], int], R], key: Callable[[R], object] | None = None
    ) -> Iterator[R]:
        """Pass the rows of a file through ``parse(row, number)``, which may raise `RecordError` (or pydantic's error).

        ``key`` gives an id, which must be unique over all files.
        """
        for number, row in formats.rows(path):
            try:
                if isinstance(row, RecordError):
                    raise row
                if not isinstance(row, dict):
                    raise RecordError("row", f"expected a JSON object, got {type(row).__name__}")
                record, place = parse(row, number), f"{path}:{number}"
                name = key(record) if key else None
                first = place if name is None else self._places.setdefault(name, place)
                if first != place:
                    why = f"{name!r} is already at {first}; ids must be unique (data.strict=false leaves it out)"
                    raise RecordError("id", why)
            except (RecordError, ValidationError) as error:
                wrong = RecordError.of(error.errors(include_url=False)) if isinstance(error, ValidationError) else error
                rejection = Rejection(str(path), number, wrong.field, wrong.why)
                if self.strict:
                    raise ValueError(str(rejection)) from None
                self.rejected += 1
                if self.rejected <= MAX_LOGGED:
                    log.warning("left out: %s", rejection)
                if len(self.rejections) < MAX_SHOWN:
                    self.rejections.append(rejection)
            else:
                self.kept += 1
                yield record

    def all_counts(self) -> dict[str, int]:
        """``read``, ``rejected`` and the source's own counts."""
        return {"read": self.read, "rejected": self.rejected, **self.counts}
