"""Rows of JSON Lines, JSON, CSV, TSV (``.gz`` too) and Parquet files, one at a time, and as records.

A row is ``(number, value)``, or ``(number, RecordError)`` where it cannot be read; reading goes on after it. Numbers
count lines from 1 (items of an array, rows of Parquet). A file that cannot be read as a whole raises ``ValueError``.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import logging
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import pydantic_core
from pydantic import ValidationError

from crm.schema import RecordError

log = logging.getLogger(__name__)
R = TypeVar("R")
Rows = Iterator[tuple[int, Any]]
PACKED = ".gz"
BOM = b"\xef\xbb\xbf"
DELIMITERS = ",;\t"
LOOK = 1_024
"""Bytes at a file's start in which no text has a zero."""
PARQUET_BATCH = 1_000
ABOUT_DATA = ("dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json")
"""What a dataset of a hub has beside its data; no rows."""
MAX_SHOWN, MAX_LOGGED = 1_000, 5
"""Rejections that are listed, and logged; all are counted."""


def rows(path: Path) -> Rows:
    """Rows of a file, its format by its name: one of `SUFFIXES`, the text ones also with ``.gz``."""
    suffix = _suffix(path.name)
    if suffix not in SUFFIXES or (path.suffix == PACKED and SUFFIXES[suffix] is parquet):
        raise ValueError(f"{path}: unknown format; the name must end in one of {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise ValueError(f"{path}: no such file; check the path, or the folder that data.root names")
    try:
        yield from SUFFIXES[suffix](path)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: cannot be read ({error}); check its permissions, or fetch the file again") from None


def is_data_file(name: str) -> bool:
    """Whether the name ends as those do whose rows can be read."""
    return _suffix(name) in SUFFIXES


def _suffix(name: str) -> str:
    return Path(name.removesuffix(PACKED)).suffix.lower()


def data_files(path: Path) -> list[Path]:
    """The file itself, or the data files of a folder, sorted: its own, or else those of the folders in it.

    A last part such as ``train-*`` is a pattern. Raises ``ValueError`` where there is none.
    """
    if "*" in path.name and not path.exists():
        if not (found := _with_rows(path.parent, path.parent.glob(path.name))):
            raise ValueError(f"{path}: no such file; check the pattern")
    elif path.is_dir():
        found, below = _with_rows(path, path.glob("*")), _with_rows(path, path.rglob("*"))
        if 0 < len(found) < len(below):
            _warn_of_left_out(path, *map(str, sorted({*below} - {*found})))
        if not (found := found or below):
            raise ValueError(f"{path}: no file in this folder ends in one of {', '.join(SUFFIXES)}")
    else:
        found = [path]
    return found


@cache
def _warn_of_left_out(folder: Path, first: str, *more: str) -> None:
    """Once for a folder, which is looked at several times."""
    line = "%s: has data files, so those in its folders are left out: %d, such as %s; name theirs to read them"
    log.warning(line, folder, 1 + len(more), first)


def _with_rows(folder: Path, files: Iterable[Path]) -> list[Path]:
    """Sorted data files, without hidden ones (a Mac leaves ``._<name>`` beside a file)."""
    return sorted(
        file
        for file in files
        if is_data_file(file.name)
        and file.name not in ABOUT_DATA
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
    )


def decode(data: bytes | str) -> Any:
    """The JSON value of a text; raises `RecordError` for anything else, also for NaN and lone surrogates."""
    try:
        return pydantic_core.from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise RecordError("row", f"not valid JSON in UTF-8: {error}") from None


def _is_utf8(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


@contextmanager
def _open(path: Path) -> Iterator[IO[bytes]]:
    """A text file, unpacked. Raises ``ValueError`` for what is none, or UTF-16."""
    with gzip.open(path, "rb") if path.suffix == PACKED else path.open("rb") as stream:
        start = stream.peek(LOOK)[:LOOK]
        wide = start[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) or 3 * start.count(0) > len(start)
        if wide or 0 in start:
            what = "is UTF-16; save it" if wide else "not a text file; save a table"
            raise ValueError(f"{path}: {what} as CSV UTF-8")
        yield cast(IO[bytes], stream)


def json_lines(path: Path) -> Rows:
    """One JSON value a line; blank lines are no rows."""
    with _open(path) as stream:
        yield from _values(stream)


def _values(lines: Iterable[bytes]) -> Rows:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield number, _decoded(line.removeprefix(BOM) if number == 1 else line)


def _decoded(line: bytes) -> Any:
    try:
        return decode(line)
    except RecordError as error:
        return error


def json_file(path: Path) -> Rows:
    """Items of a JSON array, or JSON Lines where the first line is an object: hubs call both ``.json``."""
    with _open(path) as stream:
        first = stream.readline().removeprefix(BOM)
        if isinstance(_decoded(first), dict):
            yield from _values(chain([first], stream))
            return
        items = _decoded(first + stream.read())
    if not isinstance(items, list):
        why = items if isinstance(items, RecordError) else f"expected a JSON array, got {type(items).__name__}"
        raise ValueError(f"{path}:1: {why}; write objects as one array, or one a line without line ends inside")
    yield from enumerate(items, start=1)


def table(path: Path) -> Rows:
    """Rows of a CSV or TSV file with a header: column name to text, None for a blank cell.

    The header shows the delimiter: comma, ; or tab. Quoted cells may hold line ends.
    """
    csv.field_size_limit(sys.maxsize)
    with _open(path) as raw, io.TextIOWrapper(raw, "utf-8-sig", errors="surrogateescape", newline="") as text:
        first, number = text.readline(), 1
        reader = csv.reader(chain([first], text), delimiter=max(DELIMITERS, key=first.count), strict=True)
        try:
            header = _header(path, next(reader, []))
            number = reader.line_num + 1
            for cells in reader:
                if cells:
                    yield number, _row(header, cells)
                number = reader.line_num + 1
        except csv.Error as error:
            raise ValueError(
                f"{path}:{number}: row: {error}; a quote in a cell is doubled, and each is closed"
            ) from None


def _row(header: list[str], cells: list[str]) -> dict[str, str | None] | RecordError:
    if len(cells) != len(header):
        return RecordError("row", f"{len(cells)} cells, the header names {len(header)} columns")
    row = {name: cell if cell.strip() else None for name, cell in zip(header, cells, strict=True)}
    bad = next((name for name, cell in row.items() if cell and not _is_utf8(cell)), None)
    return RecordError(bad, "not UTF-8; save the file with the encoding UTF-8") if bad else row


def _header(path: Path, cells: list[str]) -> list[str]:
    if cells and all(cell.strip() and _is_utf8(cell) for cell in cells) and len(set(cells)) == len(cells):
        return cells
    raise ValueError(
        f"{path}:1: row: expected a header in UTF-8 that names every column once (pandas: index=False; Excel: CSV "
        f"UTF-8), got {printable(str(cells))}"
    )


def parquet(path: Path) -> Rows:
    """Rows of a Parquet file, or of Arrow's as `datasets` saves to disk; NaN, a missing number in a table, is null."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    opened = pa.ipc.open_stream if path.suffix.lower() == ".arrow" else pq.ParquetFile
    try:
        with path.open("rb") as stream, opened(stream) as file:
            batches = file if opened is pa.ipc.open_stream else file.iter_batches(batch_size=PARQUET_BATCH)
            for number, row in enumerate((row for batch in batches for row in batch.to_pylist()), start=1):
                yield number, {key: None if value != value else value for key, value in row.items()}
    except (pa.ArrowException, ValueError) as error:
        raise ValueError(f"{path}: no table that can be read ({error!s:.200}); fetch it again") from None


def printable(text: str, most: int = 300) -> str:
    """One short line for a terminal: data must not move the cursor or fill the screen."""
    safe = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text[:most])
    return safe if len(text) <= most else safe + "..."


SUFFIXES: dict[str, Callable[[Path], Rows]] = {
    ".jsonl": json_lines,
    ".json": json_file,
    ".csv": table,
    ".tsv": table,
    ".parquet": parquet,
    ".arrow": parquet,
}


@dataclass(frozen=True)
class Rejection:
    """A bad row: ``line`` counts from 1 (in an array file: the item), ``field`` is ``row`` for the whole row."""

    file: str
    line: int
    field: str
    why: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {printable(self.field)}: {printable(self.why, 1_000)}"


def listed(counts: Mapping[str, int]) -> str:
    """Counts above 0 with their names, for a log."""
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items() if count)


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
        for number, row in rows(path):
            try:
                if isinstance(row, RecordError):
                    raise row
                if not isinstance(row, dict):
                    raise RecordError("row", f"expected a JSON object, got {type(row).__name__}")
                record, place = parse(row, number), f"{path}:{number}"
                name = key(record) if key else None
                first = place if name is None else self._places.setdefault(name, place)
                if first != place:
                    raise RecordError("id", f"{name!r} is already at {first}; ids must be unique")
            except (RecordError, ValidationError) as error:
                wrong = RecordError.of(error.errors(include_url=False)) if isinstance(error, ValidationError) else error
                if self.strict:
                    how = printable(wrong.how, 1_000) or " (data.strict=false leaves bad rows out)" * bool(key)
                    place, why = f"{path}:{number}: {printable(wrong.field)}", printable(wrong.why, 1_000)
                    raise RecordError(place, why, how) from None
                rejection = Rejection(str(path), number, wrong.field, wrong.why + wrong.how)
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
