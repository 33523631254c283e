"""Intake hostile files: each fault by itself, then byte soup; and writing that survives a failure."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from crm.io.intake import Intake, Rejection
from crm.io.rows import json_lines
from crm.io.untrusted import MAX_LINE_BYTES
from crm.schema import RecordError
from crm.votes.own.published import EVAL_FIELDS, TRAIN_FIELDS, parse_eval, parse_train
from crm.votes.own.records import parse_row
from crm.votes.row_reader import At

GOOD = b'{"id": "x", "text": "fine"}'


def parse(row: dict[str, Any], _line: int) -> str:
    if set(row) - {"id", "text"}:
        raise RecordError(sorted(set(row) - {"id", "text"})[0], "unknown field")
    if not isinstance(row.get("id"), str):
        raise RecordError("id", "missing or not text")
    return str(row["id"])


@dataclass
class Report:
    records: list[Any]
    read: int
    rejected: list[Rejection]

    @property
    def kept(self) -> int:
        return len(self.records)


def read_with(path: Path, parse_row: Any, *, strict: bool = False, key: Any = None) -> Report:
    reading = Intake(strict=strict)
    records = list(reading.rows(path, parse_row, key))
    assert (reading.kept, reading.rejected) == (len(records), len(reading.rejections))
    return Report(records, reading.read, reading.rejections)


def read(tmp_path: Path, data: bytes, *, strict: bool = False, name: str = "rows.jsonl") -> Report:
    path = tmp_path / name
    path.write_bytes(data)
    return read_with(path, parse, strict=strict, key=lambda record: record)


DEEP = b'{"id": "x", "text": ' + b"[" * 10_000 + b"]" * 10_000 + b"}"
BAD_LINES = {
    "truncated": (b'{"id": "x", "te', "row: not valid JSON"),
    "two values": (GOOD + b" " + GOOD, "row: not valid JSON"),
    "non-UTF-8": (b'{"id": "caf\xe9"}', "row: not UTF-8: byte 0xe9 at position 11"),
    "raw NUL": (b'{"id": "a\x00b"}', "row: not valid JSON"),
    "escaped NUL": (b'{"id": "a\\u0000b"}', "id: NUL character at position 1"),
    "lone surrogate": (b'{"id": "x", "text": "ab\\ud800"}', "text: lone surrogate at position 2"),
    "surrogate in a key": (b'{"id": "x", "\\udc00": 1}', "row: lone surrogate"),
    "nested surrogate": (b'{"id": "x", "text": [{"a": ["\\ud800"]}]}', "text: lone surrogate"),
    "NaN": (b'{"id": "x", "text": NaN}', "row: NaN is not valid JSON"),
    "Infinity": (b'{"id": "x", "text": -Infinity}', "row: -Infinity is not valid JSON"),
    "overflowing float": (b'{"id": "x", "text": 1e999}', "text: inf is not a finite number"),
    "5,000 digits": (b'{"id": ' + b"1" * 5_000 + b"}", "row: a number has too many digits"),
    "10,000 levels": (DEEP, "nested deeper than 32 levels"),
    "33 levels": (b'{"id": "x", "text": ' + b"[" * 33 + b"]" * 33 + b"}", "text: nested deeper than 32 levels"),
    "a list": (b'["id"]', "row: expected a JSON object, got list"),
    "null": (b"null", "row: expected a JSON object, got NoneType"),
    "blank": (b"", "row: blank line"),
    "white space": (b"  \t", "row: blank line"),
    "BOM in the middle": (b"\xef\xbb\xbf" + GOOD, "row: not valid JSON"),
    "duplicate key": (b'{"id": "x", "id": "z"}', "id: the key stands twice in one object"),
    "missing field": (b'{"text": "no id"}', "id: missing"),
    "null field": (b'{"id": null}', "id: missing or not text"),
    "unknown field": (b'{"id": "x", "colour": 1}', "colour: unknown field"),
    "a hostile field name": (b'{"id": "x", "a\\u001b[2J\\nb": 1}', "a\\x1b[2J\\nb: unknown field"),
    "duplicate id": (b'{"id": "first"}', "id: 'first' is already on line 1"),
}
BAD_LINES["UTF-16"] = ('{"id": "x"}'.encode("utf-16"), "row: not UTF-8")


@pytest.mark.parametrize("fault", BAD_LINES)
def test_each_fault_is_refused_by_line_and_field_and_the_rows_around_it_survive(tmp_path: Path, fault: str) -> None:
    line, why = BAD_LINES[fault]
    data = b'{"id": "first"}\n' + line + b'\n{"id": "last"}\n'
    report = read(tmp_path, data)
    assert report.records == ["first", "last"]
    assert (report.read, report.kept, len(report.rejected)) == (3, 2, 1)
    assert f"{tmp_path}/rows.jsonl:2: " in str(report.rejected[0])
    assert why in str(report.rejected[0])
    assert str(report.rejected[0]).isprintable()
    with pytest.raises(ValueError, match=re.escape(f"rows.jsonl:2: {report.rejected[0].field[:1]}"[:14])) as caught:
        read(tmp_path, data, strict=True)
    assert str(caught.value) == str(report.rejected[0])


def test_a_line_over_ten_million_bytes_is_refused_and_one_of_exactly_that_length_is_read(tmp_path: Path) -> None:
    frame = len(b'{"id": "x", "text": ""}')
    exact = b'{"id": "x", "text": "' + b"y" * (MAX_LINE_BYTES - frame) + b'"}'
    assert len(exact) == MAX_LINE_BYTES
    over = b'{"id": "o", "text": "' + b"y" * (MAX_LINE_BYTES - frame + 1) + b'"}'
    report = read(tmp_path, exact + b"\r\n" + over + b"\n" + over * 2 + b"\n" + b'{"id": "z"}')
    assert report.records == ["x", "z"]
    assert [(r.line, r.why) for r in report.rejected] == [(n, "line longer than 10,000,000 bytes") for n in (2, 3)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("last", [b"", b"end", b"end end"])
def test_line_ends_bom_and_the_end_of_the_file(tmp_path: Path, end: bytes, start: bytes, last: bytes) -> None:
    data = start + end.join([b'{"id": "a"}', b'{"id": "b"}']) + last.replace(b"end", end).replace(b" ", b"")
    assert read(tmp_path, data, strict=True).records == ["a", "b"]


def test_two_blank_lines_at_the_end_are_one_bad_row(tmp_path: Path) -> None:
    report = read(tmp_path, GOOD + b"\n\n\n")
    assert [(r.line, r.field) for r in report.rejected] == [(2, "row")]
    assert report.read == 2


def test_unicode_line_separators_stay_inside_their_row(tmp_path: Path) -> None:
    row = {"id": "one\u2028two\u2029three\x85four\x0bfive"}
    data = json.dumps(row, ensure_ascii=False).replace("\x0b", "\\u000b").encode() + b"\n"
    assert read(tmp_path, data, strict=True).records == [row["id"]]


def test_pairs_of_surrogates_are_characters(tmp_path: Path) -> None:
    assert read(tmp_path, b'{"id": "\\ud83d\\ude00"}', strict=True).records == ["\U0001f600"]


def test_gzip_is_read_and_a_cut_one_is_refused_where_it_ends(tmp_path: Path) -> None:
    lines = b"".join(b'{"id": "%d"}\n' % number for number in range(5_000))
    whole = gzip.compress(lines)
    assert read(tmp_path, whole, name="a.jsonl.gz").kept == 5_000
    cut = read(tmp_path, whole[: len(whole) // 2], name="b.jsonl.gz")
    assert 0 < cut.kept < 5_000
    assert cut.rejected[-1].line == cut.read == cut.kept + 1
    assert "cannot be read on" in cut.rejected[-1].why
    assert read(tmp_path, b"not gzip", name="c.jsonl.gz").read == 1


def test_a_missing_file_and_a_folder_are_named_with_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.jsonl: no such file; check the path"):
        read_with(tmp_path / "none.jsonl", parse)
    with pytest.raises(ValueError, match="cannot be opened"):
        list(json_lines(tmp_path))


def rows_in(data: bytes) -> int:
    """The rows of a file by its own bytes: pieces between newlines, less the empty end and one blank last line."""
    pieces = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if not pieces[-1]:
        pieces.pop()
    if pieces and not pieces[-1].strip():
        pieces.pop()
    return len(pieces)


@pytest.mark.slow
@settings(
    derandomize=True, deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.sampled_from(
                [line for line, _ in BAD_LINES.values() if len(line) < 1_000] + [GOOD, b"\r", b"\xef\xbb\xbf"]
            ),
            st.text(max_size=20).map(lambda text: json.dumps({"id": text}).encode()),
            st.recursive(st.none() | st.floats() | st.text(), st.lists).map(lambda value: json.dumps(value).encode()),
        ),
        max_size=8,
    )
)
@example([b"\xef\xbb\xbf"])
@example([b"", b"", b""])
def test_byte_soup_never_raises_anything_but_value_error_and_the_counts_add_up(
    tmp_path: Path, lines: list[bytes]
) -> None:
    data = b"\n".join(lines)
    for name in ("soup.jsonl", "soup.jsonl.gz"):
        report = read(tmp_path, data if name == "soup.jsonl" else gzip.compress(data, 1), name=name)
        assert report.kept + len(report.rejected) == report.read
        assert report.read == rows_in(data)
        try:
            assert read(tmp_path, (tmp_path / name).read_bytes(), strict=True, name=name) == report
            assert not report.rejected
        except ValueError as error:
            assert str(error) == str(report.rejected[0])


@settings(
    derandomize=True, deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_every_row_reader_refuses_any_json_object_with_record_error_only(tmp_path: Path, data: st.DataObject) -> None:
    own = ("id", "prompt", "response_a", "response_b", "winner", "criteria_a", "topic")
    parsers = [(parse_eval, EVAL_FIELDS), (parse_train, TRAIN_FIELDS), (parse_row, own)]
    parser, names = data.draw(st.sampled_from(parsers))
    turns = st.lists(st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", 3]), "content": st.text()}))
    value = st.one_of(
        st.sampled_from(["model_a", "tie", "a", "['x']", "[", '["\\ud800"]', "[" * 500, "-" * 500, "[1]"]),
        st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=4),
        turns,
    )
    rows = data.draw(st.lists(st.fixed_dictionaries(dict.fromkeys(names, value)), max_size=3))
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = read_with(path, lambda row, number: parser(row, At(path, path, number, Counter())))
    assert report.kept + len(report.rejected) == report.read == len(rows)


def test_an_array_file_is_read_item_by_item(tmp_path: Path) -> None:
    path = tmp_path / "items.json"
    path.write_bytes(b'\xef\xbb\xbf[{"id": "a"}, 3, {"id": "a"}, {"id": "\\ud800"}, {"id": "b"}]')
    report = read_with(path, parse, key=lambda record: record)
    assert report.records == ["a", "b"]
    assert [rejection.line for rejection in report.rejected] == [2, 3, 4]
    with pytest.raises(ValueError, match=r"items\.json:2: row: expected a JSON object, got int"):
        read_with(path, parse, strict=True)
    path.write_text('{\n"id": "a"}')
    with pytest.raises(ValueError, match="file: expected a JSON array of objects, got dict"):
        read_with(path, parse)
