"""Bytes and lines of a file, under bounds. In: a path and `Limits`. Out: a stream that stops where they end."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from crm.schema import RecordError

MAX_LINE_BYTES = 10_000_000
BOM = b"\xef\xbb\xbf"
OR_BY_COMMAND = "or have whoever runs the server add the file with `python bank.py`"
READ_ERRORS = (OSError, EOFError, zlib.error)
Rows = Iterator[tuple[int, Any]]
"""Numbered values; one that cannot be read comes as its `RecordError`."""


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
            raise beyond(self._path, f"{self._most:,} bytes (decompressed)")
        return data


def numbered_lines(stream: IO[bytes]) -> Iterator[tuple[int, bytes | RecordError]]:
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
                yield number, too_long("line")
                continue
        except READ_ERRORS as error:
            yield number, RecordError("row", f"the file cannot be read on from here ({error}); fetch it again")
            return
        line = line.removesuffix(b"\n")  # JSON reads over a "\r" before it
        yield number, line.removeprefix(BOM) if number == 1 else line


def too_long(what: str) -> RecordError:
    """The error of a line or row that is too long to be read."""
    return RecordError("row", f"{what} longer than {MAX_LINE_BYTES:,} bytes")


def few(path: Path, numbered: Rows, limits: Limits) -> Rows:
    """The rows, as long as they are no more than the limit."""
    for count, row in enumerate(numbered, start=1):
        if count > limits.rows:
            raise beyond(path, f"{limits.rows:,} rows")
        yield row


def narrow(path: Path, numbered: Rows, limits: Limits) -> Rows:
    """The rows, as long as none has more cells than the limit."""
    for number, row in numbered:
        if isinstance(row, (dict, list)) and len(row) > limits.columns:
            raise beyond(path, f"{limits.columns:,} columns", number)
        yield number, row


def beyond(path: Path, limit: str, number: int = 0) -> ValueError:
    """The error of a file, or of its row ``number``, that goes beyond a limit."""
    place = f"{path}:{number}: row" if number else str(path)
    return ValueError(f"{place}: more than {limit}, the most read here; leave out what is not needed, {OR_BY_COMMAND}")


def printable(text: str) -> str:
    """One short line for a terminal: data must not move the cursor or fill the screen."""
    safe = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text[:300])
    return safe if len(text) <= 300 else safe + "..."
