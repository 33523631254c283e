"""Records in Parquet, written in portions. Conversations are lists of ``{role, content}``, as viewers expect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import parquet as pq

from crm.io.files import drafted
from crm.schema import Comparison, Preference, RecordError

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
        self._portion: list[Mapping[str, Any]] = []

    def append(self, row: Mapping[str, Any]) -> None:
        """Add one row, a mapping with the schema's columns; one that is missing is null."""
        self.rows += 1
        self._portion.append(row)
        if len(self._portion) == ROW_GROUP:
            self.flush()

    def flush(self) -> None:
        """Write what is still in memory."""
        if self._portion:
            self._writer.write_table(pa.Table.from_pylist(self._portion, schema=self._writer.schema))
            self._portion = []


@contextmanager
def open_parquet(path: Path, columns: pa.Schema) -> Iterator[Appender]:
    """A file to append to, which is there as a whole when the block ends, and not at all where it fails."""
    with drafted(path) as draft, pq.ParquetWriter(draft, columns, compression="zstd") as writer:
        appender = Appender(writer)
        yield appender
        appender.flush()


def read_parquet(path: Path, record: type[Record], columns: Sequence[str] | None = None) -> Iterator[Record]:
    """Records of a file that `write_parquet` wrote, as they stream by. Raises ``ValueError`` for any other file."""
    for row in read_rows(path, columns):
        try:
            yield record.from_dict(row)
        except RecordError as error:
            raise ValueError(f"{path}: {error}; {AGAIN}") from None


def read_rows(path: Path, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Plain rows, all columns or some. Raises ``ValueError`` for a file that is missing or no Parquet."""
    if not path.is_file():
        raise ValueError(f"{path}: no such file; run the stage that writes it")
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=ROW_GROUP, columns=list(columns) if columns else None):
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ValueError(f"{path}: not a Parquet file that can be read ({error!s:.200}); {AGAIN}") from None


def count_rows(path: Path) -> int:
    """Rows of a Parquet file, from its footer."""
    return int(pq.read_metadata(path).num_rows)
