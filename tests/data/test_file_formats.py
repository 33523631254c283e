"""Faults of single files: what of a broken Parquet file, table or array is refused, and in which words."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from crm.data import rows as formats


def rows_of(path: Path) -> Iterator[Any]:
    return (value for _, value in formats.rows(path))


def test_one_unreadable_value_of_a_parquet_file_costs_one_row(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    text = pa.array([b"good", b"\xff\xfe", b"\xed\xa0\x80", b"fine"], pa.binary()).view(pa.string())
    day = pa.array([0, 0, 0, 2**31 - 1], pa.int32()).view(pa.date32())  # a year that Python's dates do not reach
    pq.write_table(pa.table({"text": text, "day": day}), path)
    first, second, third, fourth = rows_of(path)
    assert first["text"] == "good"
    assert "holds a value that cannot be read ('utf-8' codec can't decode" in second.why
    assert "holds a value that cannot be read ('utf-8' codec can't decode" in third.why
    assert "holds a value that cannot be read " in fourth.why


def test_a_column_that_stands_twice_is_refused_in_every_format(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_arrays([pa.array(["x"])] * 2, names=["a", "a"]), tmp_path / "x.parquet")
    (tmp_path / "x.csv").write_text("a,a\nx,y\n")
    (tmp_path / "x.json").write_text('[{"a": 1, "a": 2}]')
    for name in ("x.parquet", "x.csv", "x.json"):
        with pytest.raises(ValueError, match="twice"):
            list(rows_of(tmp_path / name))


def test_a_hostile_key_cannot_move_the_cursor(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('[{"a\\u001b[2J\\nb": 1, "a\\u001b[2J\\nb": 2}]')
    with pytest.raises(ValueError, match="twice") as caught:
        list(rows_of(tmp_path / "x.json"))
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "data", [b"not gzip", gzip.compress(b"prompt,winner", mtime=0)[:16], b"\x1f\x8b\x08\0" + b"\xff" * 60]
)
def test_a_compressed_table_that_is_cut_is_no_traceback(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.csv.gz").write_bytes(data)
    with pytest.raises(ValueError, match=r"cannot be read .*fetch the file again"):
        list(rows_of(tmp_path / "x.csv.gz"))
