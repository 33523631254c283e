"""Counted reading. In: files of rows and how a row becomes a record. Out: records as they stream by, and counts.

A bad row gives one `Rejection` that prints as ``file:line: field: why``. Strict reading stops at the first one with a
``ValueError`` of that text; lenient reading keeps the valid rows, and always read = kept + rejected.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from crm.io import rows as formats
from crm.io.untrusted import Limits, Rows, check_row, json_lines, printable
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
    """One refused row: ``line`` counts from 1 (in an array file: the item), ``field`` is ``row`` for the whole row."""

    file: str
    line: int
    field: str
    why: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {printable(self.field)}: {printable(self.why, 1_000)}"


class Intake:
    """What became of every row read so far, over one or several files.

    ``read`` rows came in, ``kept`` became records and ``rejected`` were refused; ``rejections`` are the first
    `MAX_SHOWN` of those. ``counts`` is for whatever else a source counts (pairs made, rows dropped and why).
    """

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self.read = self.kept = self.rejected = 0
        self.rejections: list[Rejection] = []
        self.counts: Counter[str] = Counter()

    def rows(self, path: Path, parse: Parse[R], key: Key[R] | None = None, limits: Limits | None = None) -> Iterator[R]:
        """Records of a file whose name tells its format (`crm.io.rows.rows`).

        Strict or not, a file beyond ``limits`` raises ``ValueError``.
        """
        return self.take(path, formats.rows(path, limits), parse, key)

    def lines(self, path: Path, parse: Parse[R], key: Key[R] | None = None) -> Iterator[R]:
        """Records of JSON Lines, whatever the file is called."""
        return self.take(path, json_lines(path), parse, key)

    def array(self, path: Path, parse: Parse[R], key: Key[R] | None = None) -> Iterator[R]:
        """Records of one JSON array, whatever the file is called."""
        return self.take(path, formats.json_array(path), parse, key)

    def take(self, path: Path, numbered: Rows, parse: Parse[R], key: Key[R] | None = None) -> Iterator[R]:
        """Pass rows through ``parse(row, number)``, which returns a record or raises `RecordError`.

        ``key`` gives what must be unique in the file (default: the record's ``id`` where it has one). The keys are
        kept as eight bytes each, the one thing here that grows with the file.
        """
        first_line: dict[int, int] = {}
        for number, row in numbered:
            try:
                if isinstance(row, RecordError):
                    raise row
                check_row(row)
                record = parse(row, number)
                _refuse_duplicate(key(record) if key else getattr(record, "id", None), number, first_line)
            except RecordError as error:
                self._reject(Rejection(str(path), number, error.field, error.why))
                continue
            self.read += 1
            self.kept += 1
            if _more_than_messages(row):
                self.counts["rows_with_unread_message_fields"] += 1
            yield record

    def _reject(self, rejection: Rejection) -> None:
        if self.strict:
            raise ValueError(str(rejection))
        self.read += 1
        self._count(rejection)

    def withdraw(self, rejection: Rejection) -> None:
        """Count a record that was kept as refused after all: what is wrong with it showed beyond its own file."""
        self.kept -= 1
        self._count(rejection)

    def unique(self, records: Iterable[N]) -> Iterator[N]:
        """Records whose id is new: a source sees to that within a file, draws and predictions need it over all files.

        Strict reading raises ``ValueError`` for any other; lenient reading counts it as refused.
        """
        seen: set[bytes] = set()
        for record in records:
            digest = hashlib.blake2b(record.id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
            if digest not in seen:
                seen.add(digest)
                yield record
                continue
            why = f"{record.id!r} is also in another file; leave the copy out, or give the rows different ids"
            if self.strict:
                raise ValueError(f"data: id: {why}")
            self.withdraw(Rejection("one of several", 0, "id", why))

    def _count(self, rejection: Rejection) -> None:
        self.rejected += 1
        if len(self.rejections) < MAX_SHOWN:
            self.rejections.append(rejection)

    def all_counts(self) -> dict[str, int]:
        """``read``, ``rejected`` and the source's own counts."""
        return {"read": self.read, "rejected": self.rejected, **self.counts}


def _more_than_messages(row: dict[str, Any]) -> bool:
    """Whether a message of the row says more than role and content; no source reads it."""
    turns = (turn for value in row.values() if isinstance(value, list) for turn in value if isinstance(turn, dict))
    told = ({name for name, value in turn.items() if value is not None} for turn in turns if "role" in turn)
    return any(names > {"role", "content"} for names in told)


def _refuse_duplicate(key: object, number: int, first_line: dict[int, int]) -> None:
    if key is None:
        return
    digest = hashlib.blake2b(repr(key).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    first = first_line.setdefault(int.from_bytes(digest, "big"), number)
    if first != number:
        raise RecordError(
            "id", f"{key!r} is already on line {first}; ids must be unique (data.strict=false leaves it out)"
        )
