"""Records in Parquet. In: records, one at a time. Out: a file written whole and in portions; records read back.

Conversations are lists of ``{role, content}``, as viewers and trainers expect; topics and authors may be null. A file
holds a digest of all its rows: where it is read as a whole, a changed byte is found at its end, before anything is made
of it that stays.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import parquet as pq

from crm.io.files import drafted
from crm.schema import Comparison, Preference, RecordError

FORMAT, CONTENT = b"crm_format", b"crm_content"
"""Entries of a file's metadata: the version of what is here, and the digest; a file that another tool wrote again has
neither."""
VERSION = b"1"
AGAIN = "run prepare.py again, or fetch the file again"
ROW_GROUP = 5_000
"""Rows in memory at a time, and of a row group of the file."""

_TURNS = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
_TEXTS = pa.list_(pa.string())
_NESTED = {"prompt": _TURNS, "response_a": _TURNS, "response_b": _TURNS} | dict.fromkeys(
    ("criteria", "criteria_a", "criteria_b", "criteria_topics_a", "criteria_topics_b"), _TEXTS
)
Record = TypeVar("Record", Preference, Comparison)


def schema(record: type[Record]) -> pa.Schema:
    """The Arrow schema of a record: its fields in their order; what is neither a conversation nor a list is text."""
    return pa.schema([(name, _NESTED.get(name, pa.string())) for name in record.__dataclass_fields__])


def write_parquet(path: Path, record: type[Record], rows: Iterable[Record]) -> int:
    """Write records and return how many; `ROW_GROUP` of them are in memory at a time."""
    return write_rows(path, schema(record), (row.to_dict() for row in rows))


def write_rows(path: Path, columns: pa.Schema, rows: Iterable[Mapping[str, Any]]) -> int:
    """Write plain rows under a schema and return how many."""
    with open_parquet(path, columns) as file:
        for row in rows:
            file.append(row)
    return file.rows


class Appender:
    """A Parquet file that grows row by row; ``rows`` were appended so far."""

    def __init__(self, writer: pq.ParquetWriter) -> None:
        self.rows = 0
        self._writer = writer
        self._names = writer.schema.names
        self._content = hashlib.sha256()
        self._portion: list[Mapping[str, Any]] = []

    def append(self, row: Mapping[str, Any]) -> None:
        """Add one row, a mapping with the schema's columns; one that is missing is null."""
        self.rows += 1
        self._portion.append(row)
        _add(self._content, {name: row.get(name) for name in self._names})
        if len(self._portion) == ROW_GROUP:
            self.flush()

    def flush(self) -> None:
        """Write what is still in memory."""
        if self._portion:
            self._writer.write_table(pa.Table.from_pylist(self._portion, schema=self._writer.schema))
            self._portion = []

    def finish(self) -> None:
        """Write what is left, and the digest of all rows."""
        self.flush()
        self._writer.add_key_value_metadata({FORMAT: VERSION, CONTENT: self._content.hexdigest()})


@contextmanager
def open_parquet(path: Path, columns: pa.Schema) -> Iterator[Appender]:
    """A file to append to, which is there as a whole when the block ends, and not at all where it fails.

    Atomic: a temporary file in the same folder, synced, then renamed: a reader sees the old file or all of the new.
    """
    with drafted(path) as draft, pq.ParquetWriter(draft, columns, compression="zstd") as writer:
        appender = Appender(writer)
        yield appender
        appender.finish()


def read_parquet(path: Path, record: type[Record], columns: Sequence[str] | None = None) -> Iterator[Record]:
    """Records of a file that `write_parquet` wrote, as they stream by. Raises ``ValueError`` for any other file."""
    for row in read_rows(path, columns):
        try:
            built: Record = record.from_dict(row)
        except RecordError as error:
            raise ValueError(f"{path}: {error}; {AGAIN}") from None
        yield built


def read_rows(path: Path, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Plain rows, all columns or some. Raises ``ValueError`` for a file that is missing or no Parquet.

    Also, when all columns were read, for one whose rows are not those that were written.
    """
    if not path.is_file():
        raise ValueError(f"{path}: no such file; run the stage that writes it")
    try:
        with pq.ParquetFile(path) as file:
            told, content = file.metadata.metadata or {}, hashlib.sha256()
            if told.get(FORMAT, VERSION) != VERSION:
                raise ValueError(f"format {told[FORMAT]!r:.20}, this version reads {VERSION!r}")
            for batch in file.iter_batches(batch_size=ROW_GROUP, columns=list(columns) if columns else None):
                rows = batch.to_pylist()
                if not columns:
                    for row in rows:
                        _add(content, row)
                yield from rows
            if not columns and CONTENT in told and told[CONTENT] != content.hexdigest().encode():
                raise ValueError("its rows are not those that were written")
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"{path}: not a Parquet file that can be read ({error!s:.200}); {AGAIN}") from None


def _add(content: hashlib._Hash, row: Mapping[str, Any]) -> None:
    content.update(json.dumps(row, sort_keys=True, default=repr).encode())


def count_rows(path: Path) -> int:
    """Rows of a Parquet file, from its footer."""
    with pq.ParquetFile(path) as file:
        rows: int = file.metadata.num_rows
    return rows
