"""Read rows as records: bad rows are counted, with file, line, field and why.

Strict reading stops at the first bad row with a ``ValueError`` that reads ``file:line: field: why``; lenient reading
keeps the valid rows, and always read = kept + rejected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import ValidationError

from crm.io import rows as formats
from crm.io.rows import Rows, printable
from crm.schema import RecordError


class Named(Protocol):
    """What has an id."""

    @property
    def id(self) -> str:
        """Text."""


N = TypeVar("N", bound=Named)
R = TypeVar("R")
Parse = Callable[[dict[str, Any], int], R]
Key = Callable[[R], object]
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
    """What became of every row read so far, over one or several files.

    ``read`` rows came in, ``kept`` became records and ``rejected`` were bad; ``rejections`` are the first
    `MAX_SHOWN` of those. ``counts`` is for whatever else a source counts (pairs made, rows dropped and why).
    """

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self.read = self.kept = self.rejected = 0
        self.rejections: list[Rejection] = []
        self.counts: Counter[str] = Counter()

    def rows(self, path: Path, parse: Parse[R], key: Key[R] | None = None) -> Iterator[R]:
        """Records of a file whose name tells its format (`crm.io.rows.rows`)."""
        return self.take(path, formats.rows(path), parse, key)

    def lines(self, path: Path, parse: Parse[R], key: Key[R] | None = None) -> Iterator[R]:
        """Records of JSON Lines, whatever the file is called."""
        return self.take(path, formats.json_lines(path), parse, key)

    def array(self, path: Path, parse: Parse[R], key: Key[R] | None = None) -> Iterator[R]:
        """Records of one JSON array, whatever the file is called."""
        return self.take(path, formats.json_array(path), parse, key)

    def take(self, path: Path, numbered: Rows, parse: Parse[R], key: Key[R] | None = None) -> Iterator[R]:
        """Pass rows through ``parse(row, number)``, which returns a record or raises `RecordError` (or pydantic's).

        ``key`` gives what must be unique in the file (default: the record's ``id`` where it has one).
        """
        first_line: dict[object, int] = {}
        for number, row in numbered:
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
                wrong = RecordError.of(error) if isinstance(error, ValidationError) else error
                self._reject(Rejection(str(path), number, wrong.field, wrong.why), "")
                continue
            self.read += 1
            self.kept += 1
            if _more_than_messages(row):
                self.counts["rows_with_unread_message_fields"] += 1
            yield record

    def unique(self, records: Iterable[N]) -> Iterator[N]:
        """Records whose id is new over all files: draws and predictions need that.

        Strict reading raises ``ValueError`` for any other; lenient reading counts it as rejected.
        """
        seen: set[str] = set()
        for record in records:
            if record.id not in seen:
                seen.add(record.id)
                yield record
                continue
            why = f"{record.id!r} is also in another file; leave the copy out, or give the rows different ids"
            self._reject(Rejection("one of several", 0, "id", why), f"data: id: {why}")
            self.read -= 1
            self.kept -= 1

    def _reject(self, rejection: Rejection, error: str) -> None:
        if self.strict:
            raise ValueError(error or str(rejection))
        self.read += 1
        self.rejected += 1
        if len(self.rejections) < MAX_SHOWN:
            self.rejections.append(rejection)

    def all_counts(self) -> dict[str, int]:
        """``read``, ``rejected`` and the source's own counts."""
        return {"read": self.read, "rejected": self.rejected, **self.counts}


def _more_than_messages(row: dict[str, Any]) -> bool:
    """Whether a message of the row says more than role and content; no source reads it."""
    turns = (turn for value in row.values() if isinstance(value, list) for turn in value if isinstance(turn, dict))
    named = ({name for name, value in turn.items() if value is not None} for turn in turns if "role" in turn)
    return any(names > {"role", "content"} for names in named)
