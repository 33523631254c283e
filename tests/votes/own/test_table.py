"""A table of one's own: delimiters, quotes, line ends, mapped columns, winners and criteria, each checked by hand."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from crm.io.intake import Intake
from crm.schema import Message, Preference
from crm.votes.own import table

MAPPED = {
    "prompt": "question",
    "response_a": "answer_1",
    "response_b": "answer_2",
    "winner": "better",
    "criteria_a": "likes_1",
    "author_a": "model_1",
    "author_b": "model_2",
}
ROW = {
    "question": 'Say "hi",\nplease; now\tor later',
    "answer_1": "Hi,\r\nthere",
    "answer_2": "Good day",
    "better": "answer_1",
    "likes_1": "short; kind",
    "model_1": "gpt-x",
    "model_2": "claude-y",
    "colour": "red",
}
BY_HAND = Preference(
    id="7",
    prompt=(Message("user", 'Say "hi",\nplease; now\tor later'),),
    response_a=(Message("assistant", "Hi,\r\nthere"),),
    response_b=(Message("assistant", "Good day"),),
    winner="a",
    criteria_a=("short", "kind"),
    author_a="gpt-x",
    author_b="claude-y",
    source="table",
)


def read(
    path: Path, columns: Mapping[str, str] | None = None, winners: Mapping[str, str] | None = None
) -> tuple[list[Preference], Intake]:
    reading = Intake(strict=False)
    records = list(table.read(path, reading, columns=columns or {}, winners=winners or {}))
    assert reading.read == reading.kept + reading.rejected
    return records, reading


def as_csv(rows: list[dict[str, Any]], delimiter: str = ",", end: str = "\n") -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0].keys(), delimiter=delimiter, lineterminator=end)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def plain(**changes: Any) -> dict[str, Any]:
    return {"prompt": "p", "response_a": "x", "response_b": "y", "winner": "a", **changes}


def write(tmp_path: Path, *rows: dict[str, Any]) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def refusals(reading: Intake) -> list[tuple[int, str, str]]:
    return [(rejection.line, rejection.field, rejection.why) for rejection in reading.rejections]


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(("name", "delimiter"), [("x.csv", ","), ("x.csv", ";"), ("x.tsv", "\t"), ("x.csv.gz", "\t")])
def test_every_kind_of_csv_is_the_record_written_by_hand(
    tmp_path: Path, name: str, delimiter: str, end: str, start: bytes
) -> None:
    data = start + as_csv([{"id": "7", **ROW}, {"id": "8", **ROW}], delimiter, end)
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    records, reading = read(tmp_path / name, MAPPED)
    assert records[0] == BY_HAND
    assert (len(records), reading.rejected) == (2, 0)
    assert reading.counts["unread_column_colour"] == 1
    assert [name for name in reading.counts if name.startswith("unread")] == ["unread_column_colour"]


@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet"])
def test_other_formats_hold_lists_and_messages(tmp_path: Path, kind: str) -> None:
    row = {
        **ROW,
        "id": 7,
        "question": [{"role": "user", "content": ROW["question"]}],
        "answer_1": [{"role": "assistant", "content": ROW["answer_1"]}],
        "likes_1": ["short", "kind"],
    }
    path = tmp_path / f"rows.{kind}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist([row]), path)
    else:
        path.write_text(json.dumps([row] if kind == "json" else row))
    assert read(path, MAPPED)[0] == [BY_HAND]


def test_columns_of_our_own_names_need_no_mapping(tmp_path: Path) -> None:
    row = plain(id="1", winner="b", criteria_b="one; with a semicolon\nand another", topic="Art", reason=" I like y ")
    path = tmp_path / "x.csv"
    path.write_bytes(as_csv([row]))
    record = read(path)[0][0]
    assert (record.id, record.winner, record.topic, record.reason) == ("1", "b", "Art", "I like y")
    assert (record.criteria_a, record.criteria_b) == ((), ("one; with a semicolon", "and another"))


@pytest.mark.parametrize(
    ("cell", "criteria"),
    [
        ("", ()),
        (None, ()),
        (" \n ", ()),
        ("short", ("short",)),
        ("short; kind ;", ("short", "kind")),
        ("short, kind", ("short, kind",)),
        ("short\r\n\r\nkind; and sweet\r\n", ("short", "kind; and sweet")),
        ('["one; two"]', ("one; two",)),
        ("['one', \"two\"]", ("one", "two")),
        (["one", " two "], ("one", "two")),
        ([], ()),
    ],
)
def test_criteria_cells(tmp_path: Path, cell: Any, criteria: tuple[str, ...]) -> None:
    records, reading = read(write(tmp_path, plain(criteria_a=cell)))
    assert records[0].criteria_a == criteria
    assert reading.counts["criteria_given_as_text"] == (isinstance(cell, str) and bool(cell.strip()))


KNOWN = {
    "a": "a A model_a Model_A response_a left LEFT 1 answer_1 Answer_1 gpt-x",
    "b": "b B model_b response_b right 2 answer_2 claude-y CLAUDE-Y",
    "tie": "tie Tie draw both bothbad both_bad",
}


@pytest.mark.parametrize(
    ("cell", "side"),
    [(cell, side) for side, cells in KNOWN.items() for cell in cells.split()]
    + [("tie (bothbad)", "tie"), ("Tie (both bad)", "tie"), ("1.0", "a"), ("+2", "b"), ("ｍｏｄｅｌ＿ａ", "a")],
)
def test_winners_that_are_known(tmp_path: Path, cell: str, side: str) -> None:
    rows = [{**ROW, "better": text} for text in (cell, f"  {cell}\t")]
    records, reading = read(write(tmp_path, *rows), MAPPED)
    assert [record.winner for record in records] == [side, side]
    assert reading.counts["ties"] == 2 * (side == "tie")


@pytest.mark.parametrize("cell", ["ab", "true", "3", "1.5", "answer", "0", "model a", "gpt"])
def test_winners_that_are_not_known_say_how_to_map_them(tmp_path: Path, cell: str) -> None:
    records, reading = read(write(tmp_path, {**ROW, "better": cell}), MAPPED)
    assert not records
    line, field, why = refusals(reading)[0]
    assert (line, field) == (1, "better")
    assert f"data.winners={{{cell}: a}}" in why
    mapped = read(write(tmp_path, {**ROW, "better": cell.upper()}), MAPPED, {cell: "tie"})[0]
    assert [record.winner for record in mapped] == ["tie"]


@pytest.mark.parametrize("cell", [1, 1.0, "1"])
def test_numbers_are_read_as_their_text(tmp_path: Path, cell: Any) -> None:
    assert read(write(tmp_path, plain(winner=cell)))[0][0].winner == "a"
    assert read(write(tmp_path, plain(winner=cell)), winners={"1": "b"})[0][0].winner == "b"


def test_a_cell_that_can_be_read_in_two_ways_is_refused(tmp_path: Path) -> None:
    rows = [
        plain(winner="same", author_a="same", author_b="same"),
        plain(winner="left", author_a="right", author_b="left"),
        plain(winner="left", author_a="left", author_b="right"),
        plain(winner="right", author_a="left", author_b="right"),
    ]
    records, reading = read(write(tmp_path, *rows))
    assert [record.winner for record in records] == ["a", "b"]
    assert [line for line, _, _ in refusals(reading)] == [1, 2]
    assert all("can be read in two ways; map it: 'data.winners={" in why for _, _, why in refusals(reading))


def test_ids_are_kept_or_made_of_the_content(tmp_path: Path) -> None:
    rows = [plain(id="7"), plain(id=8), plain(id=""), plain(id=None), plain(winner="b"), plain(id=0.5), plain(id="7")]
    records, reading = read(write(tmp_path, *rows))
    assert [record.id for record in records][:2] == ["7", "8"]
    assert len({record.id for record in records}) == 5
    assert all(record.id.startswith("table-") for record in records[2:])
    assert [(line, field) for line, field, _ in refusals(reading)] == [(6, "id"), (7, "id")]


def test_conversations_as_json_text_in_csv(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "Hi, «you»"}, {"role": "assistant", "content": "Yes?"}]
    path = tmp_path / "x.csv"
    path.write_bytes(as_csv([plain(prompt=json.dumps(messages)), plain(prompt=str(messages))]))
    records, reading = read(path)
    assert records[0].prompt == (Message("user", "Hi, «you»"), Message("assistant", "Yes?"))
    assert refusals(reading)[0][1] == "prompt"
    assert refusals(reading)[0][2].endswith("a list in a text must be JSON (Python: json.dumps)")


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"promt": "question"}, r"data\.columns\.promt: no such field \(nearest is 'prompt'\); there are prompt, resp"),
        (
            {"prompt": "questions"},
            r"no column 'questions' \(nearest is 'question'\) for prompt; .*it has question, ans",
        ),
        ({"topic": "zzz"}, r"no column 'zzz' for topic; name one of the file's with data\.columns\.topic=\.\.\."),
        ({"winner": "prompt"}, r"data\.columns gives the column 'prompt' to another field; add data\.columns\.prompt"),
        (
            {},
            r"no column 'prompt' for prompt; name one of the file's with data\.columns\.prompt=\.\.\.; it has question",
        ),
    ],
)
def test_columns_that_are_not_there_are_named_with_the_nearest(
    tmp_path: Path, columns: dict[str, str], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        read(write(tmp_path, ROW), columns)


@pytest.mark.parametrize(
    ("winners", "why"),
    [
        ({"x": "left"}, r"data\.winners=\{x: left\}: 'left' is not one of a, b, tie"),
        ({"x": "a", " X": "b"}, "the same cell is also mapped to another side"),
    ],
)
def test_winners_that_cannot_be_mapped(tmp_path: Path, winners: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read(write(tmp_path, plain()), winners=winners)


@pytest.mark.parametrize(
    ("row", "field", "why"),
    [
        (plain(prompt=" "), "prompt", "blank"),
        (plain(response_a=None), "response_a", "null"),
        ({"prompt": "p", "response_a": "x", "winner": "a"}, "response_b", "missing"),
        (plain(response_b=3), "response_b", "expected text or a list of messages, got int"),
        (plain(winner=["a"]), "winner", "expected a text or a number, got a list"),
        (plain(topic=3), "topic", "expected text, got int"),
        (plain(criteria_a=3), "criteria_a", "expected a list of strings, got 3"),
        (plain(criteria_a="[x"), "criteria_a", "a string that is no list of strings: '[x'"),
        (plain(criteria_b=[" "]), "criteria_b[0]", "expected a non-blank string, got ' '"),
    ],
)
def test_bad_rows_between_good_ones(tmp_path: Path, row: dict[str, Any], field: str, why: str) -> None:
    path = write(tmp_path, plain(id="1"), row, plain(id="2"))
    records, reading = read(path)
    assert [record.id for record in records] == ["1", "2"]
    assert refusals(reading) == [(2, field, why)]
    with pytest.raises(ValueError) as caught:
        list(table.read(path, Intake(strict=True), columns={}, winners={}))
    assert str(caught.value) == str(reading.rejections[0])


TABLES = {
    "a cell less": (b"p,x,y", "row: 3 cells, the header names 4 columns"),
    "a cell more": (b"p,x,y,a,z", "row: 5 cells, the header names 4 columns"),
    "text behind a quote": (b'"p"q,x,y,a', "row: ',' expected after '\"'"),
    "not UTF-8": (b"p,caf\xe9,y,a", "response_a: not UTF-8"),
}


@pytest.mark.parametrize("case", TABLES)
def test_a_broken_line_of_a_table_is_refused_and_the_rest_is_read(tmp_path: Path, case: str) -> None:
    line, why = TABLES[case]
    path = tmp_path / "x.csv"
    path.write_bytes(b"prompt,response_a,response_b,winner\n1,x,y,a\n" + line + b"\n2,x,y,b\n")
    records, reading = read(path)
    assert [record.winner for record in records] == ["a", "b"]
    assert str(reading.rejections[0]).startswith(f"{path}:3: {why}")


def test_a_quote_that_is_never_closed_is_no_cell(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b'winner,prompt,response_a,response_b\na,p,x,y\nb,p,x,"cut off\nb,p,x,z\n')
    records, reading = read(path)
    assert len(records) == 1
    assert refusals(reading) == [(3, "row", "a quote opens a cell here and never closes")]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "the file is empty"),
        (b",prompt\n0,x\n", r"column 1 has none \(pandas: save with index=False\)"),
        (b"prompt,prompt\nx,y\n", "'prompt' stands twice"),
    ],
)
def test_headers_that_name_no_columns(tmp_path: Path, data: bytes, why: str) -> None:
    (tmp_path / "x.csv").write_bytes(data)
    with pytest.raises(ValueError, match=f"x.csv:1: row: expected a header that names every column once; .*{why}"):
        read(tmp_path / "x.csv")


CHOSEN = {"prompt": "p", "chosen": "Yes", "rejected": "No"}


def told(record: Preference) -> tuple[str, str, tuple[str, ...], tuple[str, ...]]:
    """The response that won, the other one, and what speaks for each."""
    a, b = (record.response_a[0].content, record.criteria_a), (record.response_b[0].content, record.criteria_b)
    (won, why), (lost, why_not) = (a, b) if record.winner == "a" else (b, a)
    return won, lost, why, why_not


def test_chosen_and_rejected_need_no_winner(tmp_path: Path) -> None:
    rows = [
        {**CHOSEN, "criteria": "short; kind", "criteria_rejected": ["blunt"], "id": n, "topic": "Art"}
        for n in range(40)
    ]
    records, reading = read(write(tmp_path, *rows))
    assert {told(record) for record in records} == {("Yes", "No", ("short", "kind"), ("blunt",))}
    assert {record.winner for record in records} == {"a", "b"} and {record.topic for record in records} == {"Art"}
    assert reading.counts["criteria_given_as_text"] == 40 and reading.counts["ties"] == 0


def test_chosen_and_rejected_columns_may_be_named(tmp_path: Path) -> None:
    row = {"question": "p", "better": "Yes", "worse": "No", "why": "short", "by": "gpt-x", "winner": "not read"}
    columns = {"prompt": "question", "chosen": "better", "rejected": "worse", "criteria": "why", "author_chosen": "by"}
    records, reading = read(write(tmp_path, row), columns)
    assert told(records[0]) == ("Yes", "No", ("short",), ())
    assert {records[0].author_a, records[0].author_b} == {"gpt-x", None}
    assert reading.counts["unread_column_winner"] == 1


def test_a_winner_beside_them_decides_unless_they_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, plain(winner="b", chosen="q", rejected="r"))
    assert read(path)[0][0].response_b[0].content == "y"
    assert told(read(path, {"chosen": "chosen"})[0][0])[:2] == ("q", "r")


@pytest.mark.parametrize(
    ("columns", "winners", "why"),
    [
        (
            {"chosen": "chosen", "winner": "x"},
            {},
            r"data\.columns: chosen is of a table of chosen .*, winner of one with",
        ),
        ({}, {"x": "a"}, r"data\.winners: a table of chosen and rejected responses says who won; leave it out"),
        ({"chosen": "chosn"}, {}, r"no column 'chosn' \(nearest is 'chosen'\) for chosen"),
        ({"chosn": "chosen"}, {}, r"data\.columns\.chosn: no such field \(nearest is 'chosen'\)"),
    ],
)
def test_layouts_that_cannot_be(tmp_path: Path, columns: dict[str, str], winners: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read(write(tmp_path, CHOSEN), columns, winners)


@pytest.mark.parametrize(
    ("cell", "field", "why"),
    [
        ({"criteria": 3}, "criteria", "expected a list of strings, got 3"),
        ({"criteria": ["x", ""]}, "criteria[1]", "expected a non-blank string, got ''"),
        ({"criteria_rejected": "[x"}, "criteria_rejected", "a string that is no list of strings: '[x'"),
        ({"rejected": None}, "rejected", "null"),
    ],
)
def test_bad_rows_of_chosen_responses(tmp_path: Path, cell: dict[str, Any], field: str, why: str) -> None:
    records, reading = read(write(tmp_path, CHOSEN, {**CHOSEN, **cell}))
    assert len(records) == 1 and refusals(reading) == [(2, field, why)]
