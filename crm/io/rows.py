"""Rows of a file, one at a time. In: JSON Lines, a JSON array, CSV, TSV (``.gz`` too) or Parquet. Out: numbered values.

A row comes as ``(number, value)``, or as ``(number, RecordError)`` where it cannot be read; what can be read goes on
behind it. ``number`` counts lines from 1 (items of an array, rows of a Parquet file). A file that cannot be read as a
whole raises ``ValueError``. Lines end at ``\\n`` only (texts hold U+2028), ``\\r\\n`` is accepted, and so is a byte
order mark at the start. All but a JSON array are streamed: memory does not grow with the file. A file that a stranger
sent is read under `Limits`.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from crm.io.json_rows import decode
from crm.schema import RecordError

MAX_LINE_BYTES = 10_000_000
MAX_ARRAY_BYTES = 200_000_000
PARQUET_BATCH = 50
"""Rows in memory at a time: a text that a kilobyte-sized file holds once can stand in every one of them."""
DELIMITERS = ",;\t"
ABOUT_DATA = ("dataset_info.json", "dataset_infos.json", "state.json")
"""Facts that a dataset of a hub has beside its data; no rows."""

_BOM = b"\xef\xbb\xbf"
_OR_BY_COMMAND = "or have whoever runs the server add the file with `python bank.py`"
_READ_ERRORS = (OSError, EOFError, zlib.error)
Rows = Iterator[tuple[int, Any]]


@dataclass(frozen=True)
class Limits:
    """How much of a file is read that a stranger sent; more raises ``ValueError``. Each is 1 or more.

    ``decompressed_bytes`` are counted as the file unfolds, before they take memory. ``rows`` are those of the file, bad
    ones too; ``columns`` are the cells of a row: columns of a table, keys of a JSON object (not those within a value).
    A JSON array is read whole: in memory it can take some 30 times ``decompressed_bytes``. Parquet is refused: a column
    store can unfold a kilobyte to gigabytes before anybody can count.
    """

    decompressed_bytes: int
    rows: int
    columns: int


def rows(path: Path, limits: Limits | None = None) -> Rows:
    """Rows of a file, its format told by its name: one of `SUFFIXES`, the text ones also with ``.gz``.

    Beyond ``limits`` (default: none) reading ends with a ``ValueError`` that names the file, the limit and a way out.
    """
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix not in SUFFIXES or (suffix == ".parquet" and path.suffix == ".gz"):
        raise ValueError(f"{path}: unknown format; the name must end in one of {', '.join(SUFFIXES)}")
    numbered = SUFFIXES[suffix](path, limits)
    return numbered if limits is None else _few(path, _narrow(path, numbered, limits), limits)


def data_files(path: Path) -> list[Path]:
    """The file itself, or the data files of a folder, sorted: its own, or else those of the folders in it.

    Raises ``ValueError`` where there is none.
    """
    if not path.is_dir():
        return [path]
    names = [name for suffix in SUFFIXES for name in (f"*{suffix}", f"*{suffix}.gz")]
    found = _with_rows(path, {file for name in names for file in path.glob(name)})
    found = found or _with_rows(path, {file for name in names for file in path.rglob(name)})
    if not found:
        raise ValueError(f"{path}: no file in this folder ends in one of {', '.join(SUFFIXES)}")
    return found


def _with_rows(folder: Path, files: Iterable[Path]) -> list[Path]:
    """Sorted, without what is hidden (a Mac leaves ``._<name>`` beside a file) and what only tells about the data."""
    hidden = {file for file in files if any(part.startswith(".") for part in file.relative_to(folder).parts)}
    return sorted(file for file in files if file not in hidden and file.name not in ABOUT_DATA)


def json_lines(path: Path, limits: Limits | None = None) -> Rows:
    """One JSON value a line. A blank line is a bad row, except one at the very end, which is not counted."""
    blank = 0
    with open_file(path, limits) as stream:
        for number, line in _lines(stream):
            if blank:
                yield blank, RecordError("row", "blank line; remove it, one JSON object a line is expected")
            blank = number if isinstance(line, bytes) and not line.strip() else 0
            if not blank:
                yield number, _decoded(line)


def json_array(path: Path, limits: Limits | None = None) -> Rows:
    """Items of a file that is one JSON array, which is read whole: at most `MAX_ARRAY_BYTES`."""
    try:
        with open_file(path, limits) as stream:
            text = stream.read(MAX_ARRAY_BYTES + 1)
        if len(text) > MAX_ARRAY_BYTES:
            raise RecordError("file", f"more than {MAX_ARRAY_BYTES:,} bytes; split it or use JSON Lines")
        items = decode(text.removeprefix(_BOM))
        if not isinstance(items, list):
            raise RecordError("file", f"expected a JSON array of objects, got {type(items).__name__}")
    except RecordError as error:
        raise ValueError(f"{path}:1: {printable(error.field)}: {printable(error.why)}") from None
    except _READ_ERRORS as error:
        raise ValueError(f"{path}: cannot be read to its end ({error}); fetch the file again") from None
    yield from enumerate(items, start=1)


def table(path: Path, limits: Limits | None = None) -> Rows:
    """Rows of a CSV or TSV file with a header: column name to text. The header tells the delimiter: comma, ; or tab.

    Quoted cells may hold line ends. Blank lines are skipped. Every row must have as many cells as the header.
    """
    csv.field_size_limit(MAX_LINE_BYTES)
    with open_file(path, limits) as stream:
        delimiter = _delimiter(path, stream)
        reader = csv.reader(_text_lines(stream), delimiter=delimiter, strict=True)
        found = _cells(reader) if limits is None else _narrow(path, _cells(reader), limits)
        header = _header(path, next(found, (1, []))[1])
        for number, cells in found:
            yield number, cells if isinstance(cells, RecordError) else _row(header, cells)


def parquet(path: Path, limits: Limits | None = None) -> Rows:
    """Rows of a Parquet file, `PARQUET_BATCH` in memory at a time. A row of more than `MAX_LINE_BYTES` is a bad one.

    Under limits the whole file is refused.
    """
    import pyarrow as pa
    from pyarrow import parquet as pq

    if limits is not None:
        why = "a small Parquet file can unfold to gigabytes, so none is read here; convert it to JSON Lines"
        raise ValueError(f"{path}: {why}, {_OR_BY_COMMAND}")
    with open_file(path):
        pass  # a missing file has its own sentence
    number = 0
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if len(set(names)) < len(names):
                raise ValueError("a column stands twice")
            for batch in file.iter_batches(batch_size=PARQUET_BATCH):
                for row in _batch_rows(batch):
                    number += 1
                    yield number, row
    except (pa.ArrowException, OSError, ValueError) as error:
        why = printable(f"{error!s:.200}")
        if not number:
            raise ValueError(f"{path}: not a Parquet file that can be read ({why})") from None
        yield number + 1, RecordError("row", f"the file cannot be read on from here ({why})")


def _batch_rows(batch: Any) -> Iterator[Any]:
    """Rows of a record batch; where a value cannot be turned into Python's, only the row that holds it is refused."""
    import pyarrow as pa

    errors = (pa.ArrowException, ValueError, OverflowError)  # not UTF-8; a date that Python cannot hold
    if batch.nbytes <= MAX_LINE_BYTES:
        try:
            yield from batch.to_pylist()
            return
        except errors:
            pass
    for index in range(batch.num_rows):
        one = batch.slice(index, 1)
        try:
            row = one.to_pylist()[0] if one.nbytes <= MAX_LINE_BYTES else _too_long("row")
        except errors as error:
            row = RecordError("row", f"holds a value that cannot be read ({error!s:.200})")
        yield row


def _few(path: Path, numbered: Rows, limits: Limits) -> Rows:
    """The rows, as long as they are no more than the limit."""
    for count, row in enumerate(numbered, start=1):
        if count > limits.rows:
            raise _beyond(path, f"{limits.rows:,} rows")
        yield row


def _narrow(path: Path, numbered: Rows, limits: Limits) -> Rows:
    """The rows, as long as none has more cells than the limit."""
    for number, row in numbered:
        if isinstance(row, (dict, list)) and len(row) > limits.columns:
            raise _beyond(path, f"{limits.columns:,} columns", number)
        yield number, row


def _beyond(path: Path, limit: str, number: int = 0) -> ValueError:
    place = f"{path}:{number}: row" if number else str(path)
    return ValueError(f"{place}: more than {limit}, the most read here; leave out what is not needed, {_OR_BY_COMMAND}")


class _Capped:
    """A stream of bytes that raises ``ValueError`` as soon as more than the limit have come out of it."""

    def __init__(self, path: Path, stream: IO[bytes], most: int) -> None:
        self._path, self._stream, self._most, self._left = path, stream, most, most

    def __enter__(self) -> _Capped:
        return self

    def __exit__(self, *_error: object) -> None:
        self._stream.close()

    def read(self, size: int) -> bytes:
        return self._counted(self._stream.read(min(size, self._left + 1)))

    def readline(self, size: int) -> bytes:
        return self._counted(self._stream.readline(min(size, self._left + 1)))

    def seek(self, start: int) -> None:
        self._stream.seek(start)
        self._left = self._most - start

    def _counted(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise _beyond(self._path, f"{self._most:,} bytes (decompressed)")
        return data


SUFFIXES: dict[str, Callable[[Path, Limits | None], Rows]] = {
    ".jsonl": json_lines,
    ".json": json_array,
    ".csv": table,
    ".tsv": table,
    ".parquet": parquet,
}


def open_file(path: Path, limits: Limits | None = None) -> IO[bytes]:
    """Open for reading bytes, decompressed where the name ends in ``.gz``. Raises ``ValueError`` with what to check."""
    stream = _opened(path)
    return stream if limits is None else cast(IO[bytes], _Capped(path, stream, limits.decompressed_bytes))


def _opened(path: Path) -> IO[bytes]:
    try:
        if path.suffix == ".gz":
            return cast(IO[bytes], gzip.open(path, "rb"))
        return path.open("rb")
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file; check the path, or the folder that data.root names") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be opened ({error.strerror or error}); check its permissions") from None


def printable(text: str) -> str:
    """One short line for a terminal: data must not move the cursor or fill the screen."""
    safe = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text[:300])
    return safe if len(text) <= 300 else safe + "..."


def _decoded(line: bytes | RecordError) -> Any:
    if isinstance(line, RecordError):
        return line
    try:
        return decode(line)
    except RecordError as error:
        return error


def _lines(stream: IO[bytes]) -> Iterator[tuple[int, bytes | RecordError]]:
    """Numbered lines without their ends; a line that is too long or cannot be read comes as its error."""
    number = 0
    while True:
        number += 1
        try:
            line = stream.readline(MAX_LINE_BYTES + 2)
            if not line:
                return
            if len(line.rstrip(b"\r\n")) > MAX_LINE_BYTES:
                while line and not line.endswith(b"\n"):
                    line = stream.readline(MAX_LINE_BYTES)
                yield number, _too_long("line")
                continue
        except _READ_ERRORS as error:
            yield number, RecordError("row", f"the file cannot be read on from here ({error}); fetch it again")
            return
        line = line.removesuffix(b"\n")  # JSON reads over a "\r" before it
        yield number, line.removeprefix(_BOM) if number == 1 else line


def _too_long(what: str) -> RecordError:
    return RecordError("row", f"{what} longer than {MAX_LINE_BYTES:,} bytes")


class _Unreadable(csv.Error):
    """The stream of a table broke; the rows before are good, those behind are not known."""


def _delimiter(path: Path, stream: IO[bytes]) -> str:
    try:
        first = stream.readline(MAX_LINE_BYTES)
        stream.seek(0)
    except _READ_ERRORS as error:
        raise ValueError(f"{path}: cannot be read ({error}); fetch the file again") from None
    return max(DELIMITERS, key=lambda mark: first.count(mark.encode()))


def _header(path: Path, cells: list[str] | RecordError) -> list[str]:
    why = ""
    if isinstance(cells, RecordError) or not cells:
        why = str(cells) if cells else "the file is empty"
    elif not all(cell.strip() for cell in cells):
        number = next(number for number, cell in enumerate(cells, start=1) if not cell.strip())
        why = f"column {number} has none (pandas: save with index=False)"
    elif len(set(cells)) < len(cells):
        why = f"{next(cell for cell, count in Counter(cells).items() if count > 1)!r} stands twice"
    elif any(_not_utf8(cell) for cell in cells):
        why = f"{cells!s:.80} is not UTF-8; save the file with the encoding UTF-8"
    if isinstance(cells, RecordError) or why:
        raise ValueError(f"{path}:1: row: expected a header that names every column once; {printable(why)}")
    return cells


def _not_utf8(text: str) -> bool:
    """Whether bytes that are no UTF-8 were escaped in it."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _text_lines(stream: IO[bytes]) -> Iterator[str]:
    for _, line in _lines(stream):
        if isinstance(line, RecordError):
            raise _Unreadable(f"{line.why}; nothing behind it was read")
        yield line.decode("utf-8", "surrogateescape") + "\n"  # the reader takes "\r" for a line end or a cell's text


def _cells(reader: Any) -> Iterator[tuple[int, list[str] | RecordError]]:
    """Numbered lists of cells; ``number`` is the line on which the row starts."""
    while True:
        number = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            why = str(error)
            if why == "unexpected end of data":
                why = "a quote opens a cell here and never closes"
            yield number, RecordError("row", why)
            if isinstance(error, _Unreadable):
                return
            continue
        if cells:
            yield number, cells


def _row(header: list[str], cells: list[str]) -> dict[str, str] | RecordError:
    if len(cells) != len(header):
        return RecordError("row", f"{len(cells)} cells, the header names {len(header)} columns")
    for name, cell in zip(header, cells, strict=True):
        if _not_utf8(cell):
            return RecordError(name, "not UTF-8; save the file with the encoding UTF-8")
    return dict(zip(header, cells, strict=True))
