"""Rows of files: every fault names file, line and field, the rows around it survive; texts are measured in words."""

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from crm.io.rows import Intake, data_files, is_data_file, rows
from crm.io.words import count_words, first_words, split_words
from crm.schema import RecordError


def parse(row: dict[str, Any], _line: int) -> str:
    if extra := sorted(set(row) - {"id", "text"}):
        raise RecordError(extra[0], "unknown field")
    return str(row["id"])


def read(tmp_path: Path, data: bytes, *, strict: bool = False, name: str = "rows.jsonl") -> tuple[list[str], Intake]:
    (tmp_path / name).write_bytes(data)
    reading = Intake(strict=strict)
    records = list(reading.rows(tmp_path / name, parse, key=lambda record: record))
    assert reading.read == len(records) + len(reading.rejections)
    return records, reading


BAD_LINES = {
    "non-UTF-8": (b'{"id": "caf\xe9"}', "row: not valid JSON in UTF-8"),
    "lone surrogate": (b'{"id": "x", "text": "ab\\ud800"}', "row: not valid JSON"),
    "NaN": (b'{"id": "x", "text": NaN}', "row: not valid JSON"),
    "a list": (b'["id"]', "row: expected a JSON object, got list"),
    "a hostile field name": (b'{"id": "x", "a\\u001b[2J\\nb": 1}', "a\\x1b[2J\\nb: unknown field"),
    "duplicate id": (b'{"id": "first"}', "id: 'first' is already at "),
}


@pytest.mark.parametrize("fault", BAD_LINES)
def test_each_fault_names_line_and_field_and_the_rows_around_it_survive(tmp_path: Path, fault: str) -> None:
    line, why = BAD_LINES[fault]
    data = b'{"id": "first"}\n' + line + b'\n{"id": "last"}\n'
    records, reading = read(tmp_path, data)
    assert records == ["first", "last"]
    (rejection,) = map(str, reading.rejections)
    assert rejection.startswith(f"{tmp_path}/rows.jsonl:2: {why}") and rejection.isprintable()
    with pytest.raises(ValueError) as caught:
        read(tmp_path, data, strict=True)
    assert str(caught.value) == f"{rejection} (data.strict=false leaves bad rows out)"


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("last", [0, 1, 2])
def test_line_ends_bom_and_blank_lines_at_the_end(tmp_path: Path, end: bytes, start: bytes, last: int) -> None:
    data = start + end.join([b'{"id": "a\xe2\x80\xa8"}', b'{"id": "b"}']) + end * last
    assert read(tmp_path, data, strict=True)[0] == ["a\u2028", "b"]


ROWS = [{"prompt": f"p{n}", "text": f"é; {n}", "choice": "ab"[n % 2]} for n in range(3)]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)
CSV = "prompt,text,choice\r\n" + "".join(f'{row["prompt"]},"{row["text"]}",{row["choice"]}\r\n' for row in ROWS)


def write(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.jsonl", LINES),
        ("x.jsonl.gz", LINES),
        ("x.json", json.dumps(ROWS)),
        ("x.json.gz", json.dumps(ROWS, indent=1)),
        ("x.json", "\ufeff" + LINES),
        ("x.csv", CSV),
        ("x.csv", "\ufeff" + CSV),
        ("x.csv.gz", CSV.replace("\r", "")),
        ("x.tsv", CSV.replace(",", "\t")),
        ("x.csv", CSV.replace(",", ";")),
    ],
)
def test_every_format_gives_the_same_rows(tmp_path: Path, name: str, text: str) -> None:
    assert [row for _, row in rows(write(tmp_path / name, text))] == ROWS


def test_parquet_has_null_for_nan(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": ["x", "y"], "b": [float("nan"), 2.0]}), tmp_path / "x.parquet")
    assert list(rows(tmp_path / "x.parquet")) == [(1, {"a": "x", "b": None}), (2, {"a": "y", "b": 2.0})]


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("x.json", b'{\n"a": 1\n}', "x.json:1: .*write objects as one array, or one a line"),
        ("x.jsonl.gz", gzip.compress(b"{}\n" * 9_000, mtime=0)[:-20], "x.jsonl.gz: cannot be read .*, or fetch the"),
        ("x.csv", b"", "x.csv:1: row: expected a header in UTF-8 that names every column once .*, got \\[\\]"),
        ("x.csv", b",a\n0,x\n", r"once \(pandas: index=False; Excel: CSV UTF-8\), got \['', 'a'\]"),
        ("x.csv", b"a,a\nx,y\n", r"once .*, got \['a', 'a'\]"),
        ("x.csv", "a;b".encode("utf-16"), "x.csv: is UTF-16; save it as CSV UTF-8"),
        ("x.jsonl", "\ufffd\ufffd".encode() + '{"a": 1}'.encode("utf-16-le"), "x.jsonl: is UTF-16"),  # by a browser
        ("x.json", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "x.json: not a text file; save a table as CSV UTF-8"),
        ("x.csv", b'a,b\n1,2\n1,"cut off\n1,2\n', "x.csv:3: row: unexpected end of data; a quote in a cell"),
        ("x.parquet", b"no parquet", "x.parquet: no table that can be read"),
        ("x.xlsx", b"", "unknown format; the name must end in one of .jsonl, .json, .csv, .tsv, .parquet"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, data: bytes, why: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=why):
        list(rows(tmp_path / name))
    with pytest.raises(ValueError, match=r"no such file; check the path|unknown format"):
        list(rows(tmp_path / f"nosuch{''.join(Path(name).suffixes)}"))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"1,x", "row: 2 cells, the header names 3 columns"),
        (b"1,x,y,z", "row: 4 cells, the header names 3 columns"),
        (b"1,caf\xe9,y", "text: not UTF-8"),
    ],
)
def test_a_broken_line_of_a_table_costs_one_row(tmp_path: Path, line: bytes, why: str) -> None:
    (tmp_path / "x.csv").write_bytes(b"prompt,text,choice\n1,,a\n" + line + b'\n2,"x\ny",b\n3,x,b\n')
    (_, first), (number, bad), (third, _), (fourth, _) = rows(tmp_path / "x.csv")
    assert first == {"prompt": "1", "text": None, "choice": "a"}
    assert (number, third, fourth) == (3, 4, 6) and str(bad).startswith(why)


def test_data_files_of_a_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("b.csv", "a.jsonl.gz", "README.md", "dataset_infos.json", "._b.csv", "deep/d.json", ".cache/e.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("[]")
    assert [file.name for file in data_files(tmp_path)] == ["a.jsonl.gz", "b.csv"]
    why = f"are left out: 1, such as {tmp_path}/deep/d.json; name theirs to read them"
    assert data_files(tmp_path) and caplog.text.count(why) == 1, "once, however often it is looked at"
    assert data_files(tmp_path / "*.csv") == [tmp_path / "b.csv"]
    assert data_files(tmp_path / ".cache") == [tmp_path / ".cache" / "e.json"]
    for name in ("b.csv", "a.jsonl.gz"):
        (tmp_path / name).unlink()
    assert data_files(tmp_path) == [tmp_path / "deep" / "d.json"], "without files of its own, those further down"
    (tmp_path / "deep" / "d.json").unlink()
    with pytest.raises(ValueError, match="no file in this folder ends in one of"):
        data_files(tmp_path)
    with pytest.raises(ValueError, match="no such file; check the pattern"):
        data_files(tmp_path / "train-*")
    assert is_data_file("rows.CSV.gz") and not is_data_file("rows.gz")


ENGLISH = "It’s a well-known fact — “quoted”, you know: 3.5 % of naïve cafés\n\n- list item …\t(end)."


def test_words_of_spaced_scripts_are_what_stands_between_white_space() -> None:
    for text in (ENGLISH, "Это короткий ответ.", "هذا جواب قصير", "이것은 짧은 대답", "", " \n "):
        assert split_words(text) == text.split()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("你好，世界。", ["你", "好", "，", "世", "界", "。"]),
        ("用Python 3写的 code", ["用", "Python", "3", "写", "的", "code"]),
        ("テキストは短い", list("テキストは短い")),
        ("สวัสดี", ["ส", "วั", "ส", "ดี"]),  # vowel signs belong to their consonant
        ("ខ្មែរ", ["ខ្មែ", "រ"]),  # a stacked consonant too
        ("မြန်မာ", ["မြ", "န်", "မာ"]),
        ("ＡＢＣ ｄ", ["ＡＢＣ", "ｄ"]),
    ],
)
def test_characters_of_scripts_without_spaces_are_words(text: str, words: list[str]) -> None:
    assert split_words(text) == words and count_words(text) == len(words)
    assert count_words(" ".join(words)) == len(words)


def test_a_text_is_cut_where_its_words_are_counted() -> None:
    assert first_words("one two\nthree  four", 3) == "one two three ..."
    assert first_words("one two", 2) == first_words("one two", 0) == "one two"
    assert first_words("短短的回答。", 3) == "短短的 ..." and first_words("短短的", 3) == "短短的"
    assert first_words("用 Python 写", 2) == "用 Python ..."
    assert first_words("สวัสดี", 2) == "สวั ..."
    assert count_words(first_words("很长的回答很长的回答", 4).removesuffix(" ...")) == 4
