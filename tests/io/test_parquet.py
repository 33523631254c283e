"""What is written to Parquet is read back, as a whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet as pq

from crm.io.parquet import count_rows, read_parquet, read_rows, write_parquet
from crm.schema import Comparison, Message, Preference

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
TURNS = st.lists(st.builds(Message, st.sampled_from(["user", "assistant", "system"]), TEXT), min_size=1, max_size=3)
WISHES = st.lists(TEXT.filter(str.strip).map(str.strip), max_size=3).map(tuple)
PREFERENCES = st.builds(
    Preference,
    id=TEXT,
    prompt=TURNS.map(tuple),
    response_a=TURNS.map(tuple),
    response_b=TURNS.map(tuple),
    winner=st.sampled_from(["a", "b", "tie"]),
    criteria_a=WISHES,
    criteria_b=WISHES,
    topic=st.none() | TEXT,
    criteria_topics_a=WISHES,
    author_a=st.none() | TEXT,
    source=TEXT,
    reason=st.none() | TEXT,
)


def preference(name: str) -> Preference:
    say = (Message("assistant", "é\u2028\U0001f600\r\n"),)
    return Preference(name, (Message("user", f"ask {name}"),), say, say, "tie", ("be\u2028kind",), (), None)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(rows=st.lists(PREFERENCES, max_size=4))
def test_every_preference_comes_back(rows: list[Preference], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("parquet") / "rows.parquet"
    assert write_parquet(path, Preference, rows) == len(rows) == count_rows(path)
    assert list(read_parquet(path, Preference)) == rows


def test_a_comparison_comes_back(tmp_path: Path) -> None:
    say = (Message("assistant", "x"),)
    row = Comparison("1", "2", ("kind",), (Message("user", "q"),), say, say, "b", "reverse", "add")
    write_parquet(tmp_path / "c.parquet", Comparison, [row])
    assert list(read_parquet(tmp_path / "c.parquet", Comparison)) == [row]


def test_other_readers_see_conversations(tmp_path: Path) -> None:
    write_parquet(tmp_path / "rows.parquet", Preference, [preference("a")])
    (row,) = pq.read_table(tmp_path / "rows.parquet").to_pylist()
    assert row["prompt"] == [{"role": "user", "content": "ask a"}]
    assert (row["criteria_a"], row["criteria_b"], row["topic"]) == (["be\u2028kind"], [], None)
    assert list(row) == list(Preference.__dataclass_fields__)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    write_parquet(path, Preference, [preference("old")])
    before = path.read_bytes()

    def broken() -> Any:
        yield preference("new")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_parquet(path, Preference, broken())
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_no_file_of_ours_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.parquet: no such file; run the stage"):
        list(read_rows(tmp_path / "none.parquet"))
    (tmp_path / "text.parquet").write_text("no parquet")
    with pytest.raises(ValueError, match="not a Parquet file"):
        list(read_rows(tmp_path / "text.parquet"))
