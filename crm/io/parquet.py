"""Records in Parquet. Conversations are lists of ``{role, content}``, as viewers expect."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from pyarrow import parquet as pq

from crm.io.files import drafted
from crm.schema import Comparison, Preference, RecordError

_TURNS = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
_NESTED = {"prompt": _TURNS, "response_a": _TURNS, "response_b": _TURNS} | dict.fromkeys(
    ("criteria", "criteria_a", "criteria_b", "criteria_topics_a", "criteria_topics_b"), pa.list_(pa.string())
)
Record = TypeVar("Record", Preference, Comparison)


def write_parquet(path: Path, record: type[Record], rows: Iterable[Record]) -> None:
    """Write records; what is neither a conversation nor a list is text."""
    schema = pa.schema([(name, _NESTED.get(name, pa.string())) for name in record.__dataclass_fields__])
    with drafted(path) as draft:
        pq.write_table(pa.Table.from_pylist([row.to_dict() for row in rows], schema), draft, compression="zstd")


def read_parquet(path: Path, record: type[Record]) -> list[Record]:
    """Records of a file that `write_parquet` wrote. Raises ``ValueError`` for any other file."""
    try:
        return [record.from_dict(row) for row in pq.read_table(path).to_pylist()]
    except (pa.ArrowException, OSError, RecordError) as error:
        raise ValueError(
            f"{path}: not a file of ours that can be read ({error!s:.200}); run prepare.py again"
        ) from None
