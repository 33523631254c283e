"""Rows of JSON Lines, JSON, CSV, TSV (``.gz`` and ``.zst`` too) and Parquet files, one at a time.

A row is ``(number, value)``, or ``(number, RecordError)`` where it cannot be read; reading goes on after it. Numbers
count lines from 1 (items of an array, rows of Parquet). A file that cannot be read as a whole raises ``ValueError``.
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import IO, Any, cast

import pydantic_core

from crm.schema import RecordError

Rows = Iterator[tuple[int, Any]]
PACKED = (".gz", ".zst")
"""How the names of compressed files end."""
BOM = b"\xef\xbb\xbf"
DELIMITERS = ",;\t"
PARQUET_BATCH = 50
"""Rows in memory at a time: a text that a kilobyte-sized file holds once can be in every one of them."""
ABOUT_DATA = ("dataset_info.json", "dataset_infos.json", "state.json")
"""Facts that a dataset of a hub has beside its data; no rows."""
_BROKEN = (OSError, EOFError, zlib.error)


def rows(path: Path) -> Rows:
    """Rows of a file, its format by its name: one of `SUFFIXES`, the text ones also with ``.gz`` or ``.zst``."""
    suffix = _suffix(path.name)
    if suffix not in SUFFIXES or (path.suffix in PACKED and suffix == ".parquet"):
        raise ValueError(f"{path}: unknown format; the name must end in one of {', '.join(SUFFIXES)}")
    return SUFFIXES[suffix](path)


def is_data_file(name: str) -> bool:
    """Whether the name ends as those do whose rows can be read."""
    return _suffix(name) in SUFFIXES


def _suffix(name: str) -> str:
    path = Path(name)
    return Path(path.stem if path.suffix in PACKED else name).suffix.lower()


def data_files(path: Path) -> list[Path]:
    """The file itself, or the data files of a folder, sorted: its own, or else those of the folders in it.

    A last part such as ``train-*`` is a pattern. Raises ``ValueError`` where there is none.
    """
    if "*" in path.name and not path.exists():
        if not (some := _with_rows(path.parent, path.parent.glob(path.name))):
            raise ValueError(f"{path}: no such file; check the pattern")
        return some
    if not path.is_dir():
        return [path]
    found = _with_rows(path, path.glob("*")) or _with_rows(path, path.rglob("*"))
    if not found:
        raise ValueError(f"{path}: no file in this folder ends in one of {', '.join(SUFFIXES)}")
    return found


def _with_rows(folder: Path, files: Iterable[Path]) -> list[Path]:
    """Sorted data files, without hidden ones (a Mac leaves ``._<name>`` beside a file)."""
    return sorted(
        file
        for file in files
        if is_data_file(file.name)
        and file.name not in ABOUT_DATA
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
    )


def open_file(path: Path) -> IO[bytes]:
    """Open for reading bytes, decompressed where the name ends so (`PACKED`). Raises ``ValueError``: what to check."""
    try:
        if path.suffix == ".gz":
            return cast(IO[bytes], gzip.open(path, "rb"))
        if path.suffix == ".zst":
            import pyarrow as pa

            return cast(IO[bytes], io.BufferedReader(pa.input_stream(str(path), compression="zstd")))
        return path.open("rb")
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file; check the path, or the folder that data.root names") from None
    except OSError as error:
        raise ValueError(f"{path}: cannot be opened ({error.strerror or error}); check its permissions") from None


def decode(data: bytes | str) -> Any:
    """The JSON value of a text; raises `RecordError` for anything else, also for NaN and lone surrogates."""
    try:
        return pydantic_core.from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise RecordError("row", f"not valid JSON in UTF-8: {error}") from None


def check_text(field: str, text: str) -> None:
    """Raise a `RecordError` of ``field`` for half a character, which no file can hold."""
    if _not_utf8(text):
        raise RecordError(field, "holds a lone surrogate: half a character")


def json_lines(path: Path) -> Rows:
    """One JSON value a line. A blank line is a bad row, except at the very end."""
    blank = 0
    with open_file(path) as stream:
        for number, line in _lines(stream):
            if blank:
                yield blank, RecordError("row", "blank line; remove it, one JSON object a line is expected")
            blank = number if isinstance(line, bytes) and not line.strip() else 0
            if not blank:
                yield number, line if isinstance(line, RecordError) else _decoded(line)


def _lines(stream: IO[bytes]) -> Iterator[tuple[int, bytes | RecordError]]:
    number = 0
    try:
        for number, line in enumerate(stream, start=1):
            yield number, line.removeprefix(BOM) if number == 1 else line
    except _BROKEN as error:
        why = f"the file cannot be read on from here ({error}); fetch it again"
        yield number + 1, RecordError("row", why)


def _decoded(line: bytes) -> Any:
    try:
        return decode(line)
    except RecordError as error:
        return error


def json_file(path: Path) -> Rows:
    """Items of a JSON array, or JSON Lines where the first line is an object: hubs call both ``.json``."""
    try:
        with open_file(path) as stream:
            first = stream.readline().removeprefix(BOM)
        lines = first.lstrip().startswith(b"{") and isinstance(_decoded(first), dict)
    except _BROKEN:
        lines = False
    yield from json_lines(path) if lines else json_array(path)


def json_array(path: Path) -> Rows:
    """Items of a file that is one JSON array, which is read whole."""
    try:
        with open_file(path) as stream:
            items = decode(stream.read().removeprefix(BOM))
        if not isinstance(items, list):
            raise RecordError("file", f"expected a JSON array of objects, got {type(items).__name__}")
    except RecordError as error:
        why = f"{printable(str(error))}; write objects as one array, or one a line without line ends inside"
        raise ValueError(f"{path}:1: {why}") from None
    except _BROKEN as error:
        raise ValueError(f"{path}: cannot be read to its end ({error}); fetch the file again") from None
    yield from enumerate(items, start=1)


def table(path: Path) -> Rows:
    """Rows of a CSV or TSV file with a header: column name to text, None for a blank cell.

    The header tells the delimiter: comma, ; or tab, or a first line ``sep=;`` does, as spreadsheets write it. Quoted
    cells may hold line ends. Every row must have as many cells as the header.
    """
    csv.field_size_limit(sys.maxsize)
    with open_file(path) as raw, io.TextIOWrapper(raw, "utf-8-sig", errors="surrogateescape", newline="") as text:
        try:
            first = text.readline()
        except _BROKEN as error:
            raise ValueError(f"{path}: cannot be read ({error}); fetch the file again") from None
        above = first.strip().strip('"').lower().startswith("sep=")
        mark = first.strip().strip('"')[4:5] if above else max(DELIMITERS, key=first.count)
        lines = text if above else chain([first], text)
        found = _cells(csv.reader(lines, delimiter=mark, strict=True), int(above))
        header = _header(path, next(found, (1, []))[1])
        for number, cells in found:
            if isinstance(cells, list) and len(cells) != len(header):
                cells = RecordError("row", f"{len(cells)} cells, the header names {len(header)} columns")
            if isinstance(cells, RecordError):
                yield number, cells
                continue
            row = {name: cell if cell.strip() else None for name, cell in zip(header, cells, strict=True)}
            bad = next((name for name, cell in row.items() if cell and _not_utf8(cell)), None)
            yield number, RecordError(bad, "not UTF-8; save the file with the encoding UTF-8") if bad else row


def _header(path: Path, cells: list[str] | RecordError) -> list[str]:
    why = ""
    if isinstance(cells, RecordError) or not cells:
        why = str(cells) if cells else "the file is empty"
    elif not all(cell.strip() for cell in cells):
        number = next(number for number, cell in enumerate(cells, start=1) if not cell.strip())
        why = f"column {number} has none (pandas: save with index=False)"
    elif len(set(cells)) < len(cells):
        why = f"{next(cell for cell, count in Counter(cells).items() if count > 1)!r} is there twice"
    elif any(map(_not_utf8, cells)):
        why = f"{cells!s:.80} is not UTF-8; save the file with the encoding UTF-8"
    if isinstance(cells, RecordError) or why:
        raise ValueError(f"{path}:1: row: expected a header that names every column once; {printable(why)}")
    return cells


def _not_utf8(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


def _cells(reader: Any, above: int) -> Iterator[tuple[int, list[str] | RecordError]]:
    """Numbered lists of cells; ``number`` is the line on which the row starts."""
    while True:
        number = reader.line_num + 1 + above
        try:
            if cells := next(reader):
                yield number, cells
        except StopIteration:
            return
        except csv.Error as error:
            quote = "unexpected end" in str(error)
            yield number, RecordError("row", "a quote opens a cell here and never closes" if quote else str(error))
        except _BROKEN as error:
            yield number, RecordError("row", f"the file cannot be read on from here ({error}); fetch it again")
            return


def parquet(path: Path) -> Rows:
    """Rows of a Parquet file, `PARQUET_BATCH` in memory at a time; NaN, a missing number in a table, is null."""
    import pyarrow as pa
    from pyarrow import parquet as pq

    if not path.is_file():
        raise ValueError(f"{path}: no such file; check the path, or the folder that data.root names")
    number = 0
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=PARQUET_BATCH):
                for row in batch.to_pylist():
                    number += 1
                    yield number, {key: None if value != value else value for key, value in row.items()}
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        why = printable(f"{error!s:.200}")
        if not number:
            raise ValueError(f"{path}: not a Parquet file that can be read ({why})") from None
        yield number + 1, RecordError("row", f"the file cannot be read on from here ({why})")


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
}
