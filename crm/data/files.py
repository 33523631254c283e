"""Record files. In: JSON Lines or JSON arrays (``.gz`` too). Out: records, and every row that was refused.

A bad row gives one `Rejection` that prints as ``file:line: field: why``. Strict reading stops at the first one with a
``ValueError`` of that text; lenient reading keeps the valid rows, and always kept + rejected = read.
Lines end at ``\\n`` only (texts hold U+2028), ``\\r\\n`` is accepted, and so is a UTF-8 byte order mark at the start.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Generic, TypeVar, cast

from crm.data.json_rows import check_row, decode
from crm.schema import RecordError, _Record, to_json

MAX_LINE_BYTES = 10_000_000
MAX_ARRAY_BYTES = 200_000_000

_BOM = b"\xef\xbb\xbf"
_READ_ERRORS = (OSError, EOFError, zlib.error)
R = TypeVar("R")
Parse = Callable[[dict[str, Any], int], R]
Key = Callable[[R], object]


@dataclass(frozen=True)
class Rejection:
    """One refused row: ``line`` counts from 1 (in an array file: the item), ``field`` is ``row`` for the whole row."""

    file: str
    line: int
    field: str
    why: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {_printable(self.field)}: {_printable(self.why)}"


@dataclass(frozen=True)
class ReadReport(Generic[R]):
    """What one file held: ``read`` rows, of which ``records`` were kept and ``rejected`` were refused."""

    records: list[R]
    read: int
    rejected: list[Rejection]

    @property
    def kept(self) -> int:
        """How many rows became records; ``kept + len(rejected) == read``, always."""
        return len(self.records)


def read_records(
    path: str | Path,
    parse: Parse[R],
    *,
    strict: bool,
    key: Key[R] | None = None,
) -> ReadReport[R]:
    """Read JSON Lines through ``parse(row, line_number)``, which returns a record or raises `RecordError`.

    ``key`` gives what must be unique in the file (default: the record's ``id`` where it has one). A blank line is a bad
    row, except one at the very end, which is not counted. Raises ``ValueError`` for a file that cannot be opened, and
    in strict mode for the first bad row.
    """
    reader = _Reader(Path(path), parse, strict, key)
    blank = 0
    with _open(reader.path) as stream:
        for number, line in _lines(stream):
            if blank:
                reader.reject(blank, RecordError("row", "blank line; remove it, one JSON object a line is expected"))
            blank = number if isinstance(line, bytes) and not line.strip() else 0
            if not blank:
                reader.take(number, lambda line=line: _line_value(line))  # type: ignore[misc]
    return reader.report()


def read_array(
    path: str | Path,
    parse: Parse[R],
    *,
    strict: bool,
    key: Key[R] | None = None,
) -> ReadReport[R]:
    """Read a file that is one JSON array of objects, as `read_records` does; ``line`` is the item, from 1.

    A file that is not a JSON array as a whole raises ``ValueError`` in both modes: nothing in it can be counted.
    """
    reader = _Reader(Path(path), parse, strict, key)
    try:
        with _open(reader.path) as stream:
            text = stream.read(MAX_ARRAY_BYTES + 1)
        if len(text) > MAX_ARRAY_BYTES:
            raise RecordError("file", f"more than {MAX_ARRAY_BYTES:,} bytes; split it or use JSON Lines")
        items = decode(text.removeprefix(_BOM))
        if not isinstance(items, list):
            raise RecordError("file", f"expected a JSON array of objects, got {type(items).__name__}")
    except RecordError as error:
        raise ValueError(str(Rejection(str(path), 1, error.field, error.why))) from None
    except _READ_ERRORS as error:
        raise ValueError(f"{path}: cannot be read to its end ({error}); fetch the file again") from None
    for number, item in enumerate(items, start=1):
        reader.take(number, lambda item=item: item)  # type: ignore[misc]
    return reader.report()


def write_records(path: str | Path, records: Iterable[_Record]) -> int:
    """Write one JSON line per record (compressed where the name ends in ``.gz``) and return how many.

    Atomic: a temporary file in the same folder, synced, then renamed: a reader sees the old file or all of the new.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    count = 0
    try:
        with temporary.open("wb") as raw:
            zipped = gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) if path.suffix == ".gz" else None
            with zipped or contextlib.nullcontext(raw) as out:
                for record in records:
                    out.write(to_json(record).encode("utf-8") + b"\n")
                    count += 1
            raw.flush()
            os.fsync(raw.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)
    return count


class _Reader(Generic[R]):
    """Turns decoded rows into records and refusals; the one place where the counts are kept."""

    def __init__(self, path: Path, parse: Parse[R], strict: bool, key: Key[R] | None) -> None:
        self.path = path
        self._parse = parse
        self._strict = strict
        self._key = key or (lambda record: getattr(record, "id", None))
        self._first_line: dict[object, int] = {}
        self._records: list[R] = []
        self._rejected: list[Rejection] = []
        self._read = 0

    def take(self, number: int, decode: Callable[[], Any]) -> None:
        try:
            row = decode()
            check_row(row)
            record = self._parse(row, number)
            self._refuse_duplicate(record, number)
        except RecordError as error:
            self.reject(number, error)
            return
        self._read += 1
        self._records.append(record)

    def reject(self, number: int, error: RecordError) -> None:
        rejection = Rejection(str(self.path), number, error.field, error.why)
        if self._strict:
            raise ValueError(str(rejection))
        self._read += 1
        self._rejected.append(rejection)

    def _refuse_duplicate(self, record: R, number: int) -> None:
        key = self._key(record)
        if key is None:
            return
        if key in self._first_line:
            raise RecordError("id", f"{key!r} is already on line {self._first_line[key]}; ids must be unique in a file")
        self._first_line[key] = number

    def report(self) -> ReadReport[R]:
        assert len(self._records) + len(self._rejected) == self._read
        return ReadReport(self._records, self._read, self._rejected)


def _line_value(line: bytes | RecordError) -> Any:
    if isinstance(line, RecordError):
        raise line
    return decode(line)


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
                yield number, RecordError("row", f"line longer than {MAX_LINE_BYTES:,} bytes")
                continue
        except _READ_ERRORS as error:
            yield number, RecordError("row", f"the file cannot be read on from here ({error}); fetch it again")
            return
        line = line.removesuffix(b"\n")  # JSON reads over a "\r" before it
        yield number, line.removeprefix(_BOM) if number == 1 else line


def _open(path: Path) -> IO[bytes]:
    try:
        if path.suffix == ".gz":
            return cast(IO[bytes], gzip.open(path, "rb"))
        return path.open("rb")
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file; check the path, or the folder that data.root names") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be opened ({error.strerror or error}); check its permissions") from None


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _printable(text: str) -> str:
    """One short line for a terminal: data must not move the cursor or fill the screen."""
    safe = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text[:300])
    return safe if len(text) <= 300 else safe + "..."
