"""Columns that nobody asked for: a time inside a message, more fields of a message, a number that is none."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from crm.io.intake import Intake
from crm.votes.own import arena, published, records, table, trl

Row = dict[str, Any]
TIME = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def say(role: str, content: str) -> Row:
    return {"role": role, "content": content}


Q, A, B = say("user", "Why?"), say("assistant", "So."), say("assistant", "Because.")
VOTE = {"id": "v1", "prompt": [Q], "response_a": [A], "response_b": [B], "winner": "a"}
MODELS = {"model_a": "m", "model_b": "n", "winner": "tie", "id": "1"}
ROWS: dict[str, tuple[Callable[[Path, Intake], Any], Row]] = {
    "records": (records.read, {**VOTE, "criteria_a": ["Short"]}),
    "trl": (trl.read, {"prompt": [Q], "chosen": [A], "rejected": [B]}),
    "trl, whole": (trl.read, {"chosen": [Q, A], "rejected": [Q, B]}),
    "table": (lambda path, reading: table.read(path, reading, columns={}, winners={}), VOTE),
    "arena": (arena.read, {**MODELS, "conversation_a": [Q, A], "conversation_b": [Q, B]}),
    "train_rows": (
        published.read_train,
        {"model_a": [Q, A], "model_b": [Q, B], "human_winner": "tie", "a_criteria": ["Short"], "b_criteria": ["Long"]}
        | {"a_broad_criteria_topic": ["Length"], "b_broad_criteria_topic": ["Length"]},
    ),
}


def read(source: str, row: Row, folder: Path) -> tuple[list[Any], Intake]:
    path, reading = folder / "rows.parquet", Intake(strict=True)
    pq.write_table(pa.Table.from_pylist([row]), path)
    return list(ROWS[source][0](path, reading)), reading


@pytest.mark.parametrize("source", ROWS)
def test_a_time_inside_messages_is_left_out_and_counted(source: str, tmp_path: Path) -> None:
    """The record is that of the row without it; only an id that is a digest of the row may be another."""
    plain = ROWS[source][1]
    timed = {
        name: [{**turn, "at": TIME} for turn in value] if isinstance(value, list) and value[0] in (Q, A, B) else value
        for name, value in plain.items()
    }
    ((before,), without), ((after,), reading) = read(source, plain, tmp_path), read(source, timed, tmp_path)
    assert (after.prompt, after.response_a, after.response_b) == (before.prompt, before.response_a, before.response_b)
    assert reading.all_counts()["rows_with_unread_message_fields"] == 1
    assert "rows_with_unread_message_fields" not in without.all_counts()


@pytest.mark.parametrize("source", ["trl", "table", "arena", "train_rows"])
def test_nan_in_a_column_that_nobody_reads_costs_no_row(source: str, tmp_path: Path) -> None:
    records, reading = read(source, {**ROWS[source][1], "margin": float("nan")}, tmp_path)
    assert (len(records), reading.rejected) == (1, 0)


def test_infinity_and_nan_where_they_are_read_are_still_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"rows.parquet:1: margin: inf is not a finite number"):
        read("trl", {**ROWS["trl"][1], "margin": float("inf")}, tmp_path)
    with pytest.raises(ValueError, match=r"rows.parquet:1: winner: null"):
        read("table", {**VOTE, "winner": float("nan")}, tmp_path)
