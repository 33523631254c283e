"""Rows of a file, one at a time: of JSON Lines, a JSON array, CSV or TSV (``.gz`` and ``.zst`` too), or of Parquet.

A row comes as ``(number, value)``, or as ``(number, RecordError)`` where it cannot be read; what can be read goes on
behind it. ``number`` counts lines from 1 (items of an array, rows of a Parquet file). A file that cannot be read as a
whole raises ``ValueError``. Lines end at ``\\n`` only (texts hold U+2028), ``\\r\\n`` is accepted, and so is a byte
order mark at the start. All but a JSON array are streamed: memory does not grow with the file. A file that a stranger
sent is read under `Limits`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from crm.io.csv_rows import table
from crm.io.untrusted import (
    BOM,
    MAX_LINE_BYTES,
    OR_BY_COMMAND,
    PACKED,
    READ_ERRORS,
    Limits,
    Rows,
    decode,
    few,
    json_lines,
    narrow,
    open_file,
    printable,
    too_long,
)
from crm.schema import RecordError

MAX_ARRAY_BYTES = 200_000_000
AS_LINES = "several objects are written as one array, or one a line without line ends inside"
PARQUET_BATCH = 50
"""Rows in memory at a time: a text that a kilobyte-sized file holds once can stand in every one of them."""
ABOUT_DATA = ("dataset_info.json", "dataset_infos.json", "state.json")
"""Facts that a dataset of a hub has beside its data; no rows."""


def rows(path: Path, limits: Limits | None = None) -> Rows:
    """Rows of a file, its format told by its name: one of `SUFFIXES`, the text ones also with ``.gz`` or ``.zst``.

    Beyond ``limits`` (default: none) reading ends with a ``ValueError`` that names the file, the limit and a way out.
    """
    suffix = _suffix(path.name)
    if suffix not in SUFFIXES or (path.suffix in PACKED and suffix == ".parquet") or (limits and path.suffix == ".zst"):
        raise ValueError(f"{path}: unknown format; the name must end in one of {', '.join(SUFFIXES)}")
    numbered = SUFFIXES[suffix](path, limits)
    return numbered if limits is None else few(path, narrow(path, numbered, limits), limits)


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
        if not (some := _with_rows(path.parent, list(path.parent.glob(path.name)))):
            raise ValueError(f"{path}: no such file; check the pattern")
        return some
    if not path.is_dir():
        return [path]
    names = [name for suffix in SUFFIXES for name in (f"*{suffix}", *(f"*{suffix}{end}" for end in PACKED))]
    found = _with_rows(path, {file for name in names for file in path.glob(name)})
    found = found or _with_rows(path, {file for name in names for file in path.rglob(name)})
    if not found:
        raise ValueError(f"{path}: no file in this folder ends in one of {', '.join(SUFFIXES)}")
    return found


def _with_rows(folder: Path, files: Iterable[Path]) -> list[Path]:
    """Sorted, without what is hidden (a Mac leaves ``._<name>`` beside a file) and what only tells about the data."""
    hidden = {file for file in files if any(part.startswith(".") for part in file.relative_to(folder).parts)}
    return sorted(file for file in files if file not in hidden and file.name not in ABOUT_DATA)


def json_file(path: Path, limits: Limits | None = None) -> Rows:
    """Items of a JSON array, or JSON Lines where the first line is an object: hubs call both ``.json``."""
    try:
        with open_file(path, limits) as stream:
            first = stream.readline(MAX_LINE_BYTES).removeprefix(BOM)
        lines = first.lstrip().startswith(b"{") and isinstance(decode(first), dict)
    except (RecordError, *READ_ERRORS):
        lines = False
    yield from json_lines(path, limits) if lines else json_array(path, limits)


def json_array(path: Path, limits: Limits | None = None) -> Rows:
    """Items of a file that is one JSON array, which is read whole: at most `MAX_ARRAY_BYTES`."""
    try:
        with open_file(path, limits) as stream:
            text = stream.read(MAX_ARRAY_BYTES + 1)
        if len(text) > MAX_ARRAY_BYTES:
            raise RecordError("file", f"more than {MAX_ARRAY_BYTES:,} bytes; split it or use JSON Lines")
        items = decode(text.removeprefix(BOM))
        if not isinstance(items, list):
            raise RecordError("file", f"expected a JSON array of objects, got {type(items).__name__}; {AS_LINES}")
    except RecordError as error:
        way_out = f"; {AS_LINES}" if "Extra data" in error.why else ""
        raise ValueError(f"{path}:1: {printable(error.field)}: {printable(error.why)}{way_out}") from None
    except READ_ERRORS as error:
        raise ValueError(f"{path}: cannot be read to its end ({error}); fetch the file again") from None
    yield from enumerate(items, start=1)


def parquet(path: Path, limits: Limits | None = None) -> Rows:
    """Rows of a Parquet file, `PARQUET_BATCH` in memory at a time. A row of more than `MAX_LINE_BYTES` is a bad one.

    Under limits the whole file is refused.
    """
    import pyarrow as pa
    from pyarrow import parquet as pq

    if limits is not None:
        why = "a small Parquet file can unfold to gigabytes, so none is read here; convert it to JSON Lines"
        raise ValueError(f"{path}: {why}, {OR_BY_COMMAND}")
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
    """Rows of a record batch; where a value cannot be turned into Python's, only the row that holds it is refused.

    A column of numbers has NaN where a table has no number: that is null.
    """
    import pyarrow as pa

    errors = (pa.ArrowException, ValueError, OverflowError)  # not UTF-8; a date that Python cannot hold
    if batch.nbytes <= MAX_LINE_BYTES:
        try:
            yield from map(_without_nan, batch.to_pylist())
            return
        except errors:
            pass
    for index in range(batch.num_rows):
        one = batch.slice(index, 1)
        try:
            row = _without_nan(one.to_pylist()[0]) if one.nbytes <= MAX_LINE_BYTES else too_long("row")
        except errors as error:
            row = RecordError("row", f"holds a value that cannot be read ({error!s:.200})")
        yield row


def _without_nan(row: dict[str, Any]) -> dict[str, Any]:
    return {name: None if isinstance(value, float) and value != value else value for name, value in row.items()}


SUFFIXES: dict[str, Callable[[Path, Limits | None], Rows]] = {
    ".jsonl": json_lines,
    ".json": json_file,
    ".csv": table,
    ".tsv": table,
    ".parquet": parquet,
}
