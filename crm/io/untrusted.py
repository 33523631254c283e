"""What a stranger sent, hostile until proven valid. In: a path under `Limits`, the bytes of a line. Out: plain values.

A stream of bytes stops where its limits end; a line becomes a JSON value or a `RecordError`; a row is refused where it
holds what no file of ours holds.
"""

from __future__ import annotations

import codecs
import gzip
import json
import math
import shlex
import shutil
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NoReturn, cast

from crm.schema import RecordError

MAX_LINE_BYTES = 10_000_000
MAX_DEPTH = 32
"""Objects and lists inside one another; our deepest real format needs 4."""
PACKED = (".gz", ".zst")
"""How the names of compressed files end."""
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
    """Open for reading bytes, decompressed where the name ends so (`PACKED`). Raises ``ValueError``: what to check."""
    stream = _opened(path)
    _refuse_utf16(path, stream)
    return stream if limits is None else cast(IO[bytes], _Capped(path, stream, limits.decompressed_bytes))


def _opened(path: Path) -> IO[bytes]:
    try:
        if path.suffix == ".gz":
            return cast(IO[bytes], gzip.open(path, "rb"))
        if path.suffix == ".zst":
            return _unzstd(path)
        return path.open("rb")
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file; check the path, or the folder that data.root names") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be opened ({error.strerror or error}); check its permissions") from None


def _unzstd(path: Path) -> IO[bytes]:
    """The content as a file without a name: a stream of pyarrow's cannot go back to its start, as readers do."""
    import pyarrow as pa

    whole = cast(IO[bytes], TemporaryFile())  # noqa: SIM115 - its reader closes it
    with path.open("rb") as packed:
        try:
            shutil.copyfileobj(pa.CompressedInputStream(packed, "zstd"), whole)
        except (OSError, pa.ArrowException) as error:
            raise ValueError(f"{path}: cannot be read to its end ({error!s:.80}); fetch the file again") from None
    whole.seek(0)
    return whole


def _refuse_utf16(path: Path, stream: IO[bytes]) -> None:
    try:
        start = stream.read(2)
        stream.seek(0)
    except READ_ERRORS:
        return  # whoever reads on says so with the place
    if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        stream.close()
        name = path.name
        command = f"iconv -f UTF-16 -t UTF-8 {shlex.quote(str(path))} > {shlex.quote(f'utf8-{name}')}"
        why = "is UTF-16, as a spreadsheet's Unicode text is; save it as UTF-8 (CSV UTF-8)"
        raise ValueError(f"{path}: {why}" + ("" if path.suffix in PACKED else f", or: {command}"))


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


def json_lines(path: Path, limits: Limits | None = None) -> Rows:
    """One JSON value a line. A blank line is a bad row, except one at the very end, which is not counted."""
    blank = 0
    with open_file(path, limits) as stream:
        for number, line in numbered_lines(stream):
            if blank:
                yield blank, RecordError("row", "blank line; remove it, one JSON object a line is expected")
            blank = number if isinstance(line, bytes) and not line.strip() else 0
            if not blank:
                yield number, _decoded(line)


def _decoded(line: bytes | RecordError) -> Any:
    if isinstance(line, RecordError):
        return line
    try:
        return decode(line)
    except RecordError as error:
        return error


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


def printable(text: str, most: int = 300) -> str:
    """One short line for a terminal: data must not move the cursor or fill the screen."""
    safe = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text[:most])
    return safe if len(text) <= most else safe + "..."


def check_row(row: object) -> None:
    """Refuse what no source accepts: a row that is not an object, deep nesting, NUL, lone surrogates, infinite numbers.

    Walks with a stack of its own, so that no depth of input can exhaust Python's; it holds lists and objects only,
    because most values are neither. Raises `RecordError`.
    """
    if not isinstance(row, dict):
        raise RecordError("row", f"expected a JSON object, got {type(row).__name__}")
    stack: list[tuple[str, dict[Any, Any] | list[Any], int]] = []
    for name, value in row.items():
        _check_value("row", name)
        if isinstance(value, (dict, list)):
            stack.append((name, value, 1))
        else:
            _check_value(name, value)
    while stack:
        field, items, depth = stack.pop()
        for item in (*items.keys(), *items.values()) if isinstance(items, dict) else items:
            if not isinstance(item, (dict, list)):
                _check_value(field, item)
            elif depth == MAX_DEPTH:
                raise RecordError(field, f"nested deeper than {MAX_DEPTH} levels")
            elif item:
                stack.append((field, item, depth + 1))


def check_text(field: str, text: str) -> None:
    """Refuse, as a `RecordError` of ``field``, what no file of ours holds: NUL, and half a character."""
    if "\0" in text:
        raise RecordError(field, f"NUL character at position {text.index(chr(0))}")
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise RecordError(field, f"lone surrogate at position {error.start}: half a character") from None


def _check_value(field: str, value: object) -> None:
    if isinstance(value, str):
        check_text(field, value)
    elif isinstance(value, float) and not math.isfinite(value):
        raise RecordError(field, f"{value} is not a finite number")


def decode(line: bytes) -> Any:
    """The JSON value of one line; raises `RecordError` for anything else, whatever the bytes are."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError("row", f"not UTF-8: byte 0x{line[error.start]:02x} at position {error.start}") from None
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise RecordError("row", f"not valid JSON: {error.msg} at position {error.pos}") from None
    except RecursionError:
        raise RecordError("row", f"nested deeper than {MAX_DEPTH} levels") from None
    except RecordError:
        raise
    except ValueError:  # Python's own limit on the digits of an integer
        raise RecordError("row", "a number has too many digits") from None


def _refuse_constant(name: str) -> NoReturn:
    raise RecordError("row", f"{name} is not valid JSON; leave the field out or use null")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        counted = Counter(name for name, _ in pairs)  # asking each name how often it stands there would be quadratic
        twice = next(name for name, count in counted.items() if count > 1)
        raise RecordError(twice, "the key stands twice in one object")
    return row
