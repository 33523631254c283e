"""LMArena's three layouts, as files of the hub's shape written here: what each row becomes, and what is refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from crm.io.intake import Intake
from crm.schema import Message, Preference
from crm.votes.catalogue import OWN
from crm.votes.own import arena

TURNS = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
PART = pa.struct([("type", pa.string()), ("text", pa.string()), ("image", pa.string()), ("mimeType", pa.string())])
PARTS = pa.list_(pa.struct([("role", pa.string()), ("content", pa.list_(PART))]))
SHARED = [("model_a", pa.string()), ("model_b", pa.string()), ("winner", pa.string())]
SCHEMA_100K = pa.schema(
    [
        ("question_id", pa.string()),
        *SHARED,
        ("conversation_a", TURNS),
        ("conversation_b", TURNS),
        ("turn", pa.int64()),
        ("language", pa.string()),
        ("category_tag", pa.struct([("if_v0.1", pa.struct([("if", pa.bool_()), ("score", pa.float64())]))])),
        ("is_code", pa.bool_()),
    ]
)
SCHEMA_140K = pa.schema(
    [
        ("id", pa.string()),
        *SHARED,
        ("conversation_a", PARTS),
        ("conversation_b", PARTS),
        ("full_conversation", pa.list_(pa.struct([("user", pa.struct([("role", pa.string())]))]))),
        ("timestamp", pa.timestamp("us")),
    ]
)


def said(*texts: str) -> list[dict[str, str]]:
    return [{"role": "assistant" if n % 2 else "user", "content": text} for n, text in enumerate(texts)]


def in_parts(*texts: str) -> list[dict[str, Any]]:
    return [
        {"role": turn["role"], "content": [{"type": "text", "text": turn["content"], "image": None, "mimeType": None}]}
        for turn in said(*texts)
    ]


def row_55k(**changes: Any) -> dict[str, Any]:
    row = {
        "id": 30192,
        "model_a": "gpt-x",
        "model_b": "claude-y",
        "prompt": '["Is it \\"moral\\"?", "OK,\\nshorter"]',
        "response_a": '["Yes; no.", "Hm \\ud83d\\ude00"]',
        "response_b": '["No", "Perhaps"]',
        "winner_model_a": 0,
        "winner_model_b": 1,
        "winner_tie": 0,
    }
    return {**row, **changes}


def row_100k(**changes: Any) -> dict[str, Any]:
    row = {
        "question_id": "q1",
        "model_a": "gpt-x",
        "model_b": "claude-y",
        "winner": "model_a",
        "conversation_a": said("Hello", "Hi A"),
        "conversation_b": said("Hello", "Hi B"),
        "turn": 1,
        "language": "English",
        "category_tag": {"if_v0.1": {"if": True, "score": 4.0}},
        "is_code": False,
    }
    return {**row, **changes}


def row_140k(**changes: Any) -> dict[str, Any]:
    row = {
        "id": "c4b9",
        "model_a": "gpt-x",
        "model_b": "claude-y",
        "winner": "tie",
        "conversation_a": in_parts("Hello", "Hi A"),
        "conversation_b": in_parts("Hello", "Hi B"),
    }
    return {**row, **changes}


def write_csv(path: Path, *rows: dict[str, Any]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_parquet(path: Path, schema: pa.Schema | None, *rows: dict[str, Any]) -> Path:
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), path)
    return path


def read(path: Path) -> tuple[list[Preference], Intake]:
    reading = Intake(strict=False)
    return list(arena.read(path, reading)), reading


def refusal(tmp_path: Path, row: dict[str, Any]) -> str:
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps(row) + "\n")
    records, reading = read(path)
    assert (records, reading.read) == ([], 1)
    return str(reading.rejections[0]).removeprefix(f"{path}:1: ")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_row_of_55k_becomes_the_record_written_by_hand(tmp_path: Path, kind: str) -> None:
    if kind == "csv":
        path = write_csv(tmp_path / "train.csv", row_55k())
    else:
        path = write_parquet(tmp_path / "train.parquet", None, row_55k())
    assert read(path)[0] == [
        Preference(
            id="arena-30192",
            prompt=(Message("user", 'Is it "moral"?'),),
            response_a=(
                Message("assistant", "Yes; no."),
                Message("user", "OK,\nshorter"),
                Message("assistant", "Hm \U0001f600"),
            ),
            response_b=(Message("assistant", "No"), Message("user", "OK,\nshorter"), Message("assistant", "Perhaps")),
            winner="b",
            author_a="gpt-x",
            author_b="claude-y",
            source="arena/human",
        )
    ]


def test_winners_of_55k_and_a_silent_model(tmp_path: Path) -> None:
    flags = ("winner_model_a", "winner_model_b", "winner_tie")
    rows = [row_55k(id=n, **{name: int(n == i) for i, name in enumerate(flags)}) for n in range(3)]
    rows[2] |= {"response_b": '["No", null]'}
    records, reading = read(write_csv(tmp_path / "train.csv", *rows))
    assert [record.winner for record in records] == ["a", "b", "tie"]
    assert records[2].response_b[-1] == Message("assistant", "")
    assert (reading.counts["ties"], reading.counts["rows_with_null_turns"]) == (1, 1)


def test_the_winners_and_conversations_of_100k(tmp_path: Path) -> None:
    winners = ("model_a", "model_b", "tie", "tie (bothbad)")
    rows = [row_100k(question_id=f"q{n}", winner=winner) for n, winner in enumerate(winners)]
    records, reading = read(write_parquet(tmp_path / "100k.parquet", SCHEMA_100K, *rows))
    assert [(record.id, record.winner) for record in records] == [
        ("arena-q0", "a"),
        ("arena-q1", "b"),
        ("arena-q2", "tie"),
        ("arena-q3", "tie"),
    ]
    assert (reading.counts["ties"], reading.counts["ties_both_bad"]) == (2, 1)
    assert records[0].prompt == (Message("user", "Hello"),)
    assert (records[0].response_a[0].content, records[0].response_b[0].content) == ("Hi A", "Hi B")
    assert (records[0].author_a, records[0].topic, records[0].criteria_a) == ("gpt-x", None, ())


def test_turns_that_both_share_are_the_prompt_up_to_the_last_user_turn(tmp_path: Path) -> None:
    row = row_100k(conversation_a=said("Hello", "Hi", "More", "A2"), conversation_b=said("Hello", "Hi", "More", "B2"))
    record = read(write_parquet(tmp_path / "x.parquet", SCHEMA_100K, row))[0][0]
    assert [turn.content for turn in record.prompt] == ["Hello", "Hi", "More"]
    assert record.response_b == (Message("assistant", "B2"),)


def test_shards_of_140k_in_a_folder_are_read_in_order(tmp_path: Path) -> None:
    for n, winner in enumerate(("tie", "both_bad", "model_b")):
        write_parquet(tmp_path / f"train-0000{n}-of-00003.parquet", SCHEMA_140K, row_140k(id=f"c{n}", winner=winner))
    records, reading = read(tmp_path)
    assert [(record.id, record.winner) for record in records] == [
        ("arena-c0", "tie"),
        ("arena-c1", "tie"),
        ("arena-c2", "b"),
    ]
    assert (reading.counts["ties"], reading.counts["ties_both_bad"]) == (2, 1)
    assert records[0].response_a == (Message("assistant", "Hi A"),)


def test_conversations_as_json_text_are_the_same_record(tmp_path: Path) -> None:
    row = row_140k()
    text = {name: json.dumps(row[name]) for name in ("conversation_a", "conversation_b")}
    as_text = read(write_csv(tmp_path / "x.csv", {**row, **text}))[0]
    assert as_text == read(write_parquet(tmp_path / "x.parquet", SCHEMA_140K, row))[0]


IMAGE = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?", "image": None, "mimeType": None},
            {"type": "image", "text": None, "image": "cat.png", "mimeType": "image/png"},
        ],
    },
    *in_parts("Hello", "A cat")[1:],
]
SNEAKED = [{"role": "user", "content": [{"type": "text", "text": "x", "image": "cat.png"}]}, *in_parts("x", "y")[1:]]
REFUSED = {
    "an image": (
        row_140k(conversation_a=IMAGE),
        "conversation_a[0].content: holds a part of the type 'image'; only conversations of text",
    ),
    "an image in a part of text": (row_140k(conversation_b=SNEAKED), "conversation_b[0].content: holds a part of"),
    "two parts": (
        row_140k(conversation_b=[{"role": "user", "content": IMAGE[0]["content"][:1] * 2}]),
        "conversation_b[0].content: 2 parts of text, expected one",
    ),
    "a part that is no object": (
        row_140k(conversation_b=[{"role": "user", "content": ["x"]}]),
        "conversation_b[0].content: holds a part of the type 'str'",
    ),
    "an unknown winner": (row_100k(winner="model_c"), "winner: 'model_c' is not one of model_a, model_b, tie, tie (b"),
    "nothing shared": (
        row_100k(conversation_b=said("Bye", "Hi")),
        "conversation_b: shares no leading turns with conversation_a",
    ),
    "no conversation": (row_100k(conversation_a=None), "conversation_a: null"),
    "a blank id": (row_100k(question_id=" "), "question_id: expected a whole number or a non-blank text, got ' '"),
    "two winners": (row_55k(winner_tie=1), "winner_tie: 2 of winner_model_a, winner_model_b, winner_tie are 1"),
    "no winner": (row_55k(winner_model_b=0), "winner_tie: 0 of winner_model_a, winner_model_b, winner_tie are 1"),
    "half a vote": (row_55k(winner_tie=0.5), "winner_tie: 0.5 is not 0 or 1"),
    "a turn less": (row_55k(response_b='["No"]'), "response_b: 1 turns, the prompt has 2"),
    "a silent user": (row_55k(prompt='["x", null]'), "prompt[1]: expected text, got null"),
    "no JSON": (row_55k(response_a="['x', 'y']"), "response_a: not valid JSON"),
    "half a character": (row_55k(response_a='["x", "\\ud83d"]'), "response_a: lone surrogate at position 0"),
    "other columns": ({"id": 1, "prompt": "x"}, "row: has neither conversation_a nor winner_tie"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_with_its_reason(tmp_path: Path, case: str) -> None:
    row, why = REFUSED[case]
    assert refusal(tmp_path, row).startswith(why)


def test_the_catalogue_reads_it() -> None:
    assert OWN["arena"].read is arena.read
