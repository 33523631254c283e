"""What is written to Parquet is read back, and other readers see conversations."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import parquet as pq

from crm.io.parquet import read_parquet, write_parquet
from crm.schema import Comparison, Message, Preference


def test_records_come_back(tmp_path: Path) -> None:
    say, ask = (Message("assistant", "\u00e9\u2028\U0001f600\r\n"),), (Message("user", "ask"),)
    vote = Preference("1", ask, say, say, "tie", ("be\u2028kind",), topic=None)
    write_parquet(tmp_path / "rows.parquet", Preference, [vote])
    assert read_parquet(tmp_path / "rows.parquet", Preference) == [vote]
    (row,) = pq.read_table(tmp_path / "rows.parquet").to_pylist()
    assert row["prompt"] == [{"role": "user", "content": "ask"}] and list(row) == list(Preference.__dataclass_fields__)
    assert (row["criteria_a"], row["criteria_b"], row["topic"]) == (["be\u2028kind"], [], None)
    comparison = Comparison("1", "2", ("kind",), ask, say, say, "b", "reverse", "add")
    write_parquet(tmp_path / "c.parquet", Comparison, [comparison])
    assert read_parquet(tmp_path / "c.parquet", Comparison) == [comparison]
    assert {file.name for file in tmp_path.iterdir()} == {"rows.parquet", "c.parquet"}


def test_what_is_no_file_of_ours_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "text.parquet").write_text("no parquet")
    for name in ("none", "text"):
        with pytest.raises(ValueError, match=rf"{name}\.parquet: not a file of ours .*; run prepare.py again"):
            read_parquet(tmp_path / f"{name}.parquet", Preference)
