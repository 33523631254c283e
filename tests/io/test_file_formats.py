"""Faults of single files: what of a broken Parquet file, table or array is refused, and what limits refuse."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from crm.io import rows as formats
from crm.io.intake import Intake
from crm.io.untrusted import Limits

ROOT = Path(formats.__file__).parents[2]


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


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/status").is_file(), reason="needs /proc to read a process's own peak of memory"
)
def test_a_small_parquet_file_does_not_fill_the_memory(tmp_path: Path) -> None:
    """A text of 4 MB that a kilobyte holds once, in 300 rows: 1.2 GB, were they all in memory at the same time."""
    rows = pa.DictionaryArray.from_arrays(pa.array([0] * 300, pa.int32()), pa.array(["x" * 4_000_000]))
    pq.write_table(pa.table({"text": rows}), tmp_path / "x.parquet", compression="zstd")
    assert (tmp_path / "x.parquet").stat().st_size < 3_000
    code = (
        "import sys; from pathlib import Path; from crm.io.rows import rows;"
        "print(sum(1 for _, row in rows(Path(sys.argv[1])) if len(row['text']) == 4_000_000),"
        " Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "x.parquet")], capture_output=True, text=True, check=True, cwd=ROOT
    )
    read, kilobytes = map(int, done.stdout.split())
    assert read == 300
    assert kilobytes < 800_000


def test_a_parquet_row_may_be_as_long_as_a_line_and_no_longer(tmp_path: Path) -> None:
    texts = ["short", "x" * 10_000_001, "x" * 9_000_000, "fine"]
    pq.write_table(pa.table({"text": texts}), tmp_path / "x.parquet")
    first, second, third, fourth = rows_of(tmp_path / "x.parquet")
    assert (first["text"], third["text"], fourth["text"]) == (texts[0], texts[2], texts[3])
    assert str(second) == "row: row longer than 10,000,000 bytes"


MANY = 1_000_000
LIMITS = Limits(decompressed_bytes=100_000, rows=100, columns=10)


@pytest.mark.timeout(20)  # an hour, when each name was counted by itself
def test_a_name_that_stands_twice_is_found_among_a_million(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(",".join(f"c{n}" for n in range(MANY)) + ",z,z\n")
    keys = ",".join(f'"c{n}":1' for n in range(MANY // 2))
    (tmp_path / "x.jsonl").write_text(f'{{{keys},"z":1,"z":2}}\n')
    with pytest.raises(ValueError, match=r"x\.csv:1: row: .*'z' stands twice"):
        list(rows_of(tmp_path / "x.csv"))
    (row,) = rows_of(tmp_path / "x.jsonl")
    assert str(row) == "z: the key stands twice in one object"


def gzipped(path: Path, pieces: Iterable[bytes]) -> Path:
    with gzip.open(path, "wb", compresslevel=1) as stream:
        for piece in pieces:
            stream.write(piece)
    return path


def counting(method: Callable[..., bytes], sizes: list[int]) -> Callable[..., bytes]:
    def counted(stream: gzip.GzipFile, size: int = -1) -> bytes:
        data = method(stream, size)
        sizes.append(len(data))
        return data

    return counted


@pytest.mark.parametrize("name", ["x.jsonl.gz", "x.json.gz", "x.csv.gz", "x.tsv.gz"])
def test_a_file_that_unfolds_is_read_no_further_than_allowed(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line, one array, one cell of 50 MB within 50 KB; bytes are counted as the file hands them out."""
    start = {"x.json.gz": b"[", "x.jsonl.gz": b'{"text":"', "x.csv.gz": b'text\n"', "x.tsv.gz": b""}[name]
    path = gzipped(tmp_path / name, [start, *[b" " * 1_000_000] * 50])
    handed_out: list[int] = []
    for method in ("read", "readline"):
        monkeypatch.setattr(gzip.GzipFile, method, counting(getattr(gzip.GzipFile, method), handed_out))
    with pytest.raises(ValueError, match=r"x\..*: more than 100,000 bytes \(decompressed\), .* run") as caught:
        list(formats.rows(path, LIMITS))
    assert str(caught.value).startswith(f"{path}: ")
    assert sum(handed_out) <= 2 * 100_001, "a table reads its first line twice"


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("x.jsonl", '{"a": 1}\n' * 101, "x.jsonl: more than 100 rows"),
        ("x.jsonl", "[\n" * 101, "x.jsonl: more than 100 rows"),
        ("x.json", "[" + ",".join(["{}"] * 101) + "]", "x.json: more than 100 rows"),
        ("x.csv", "a\n" + "1\n" * 101, "x.csv: more than 100 rows"),
        ("x.jsonl", "{}\n{" + ",".join(f'"{n}": 1' for n in range(11)) + "}", "x.jsonl:2: row: more than 10 columns"),
        ("x.json", "[{" + ",".join(f'"{n}": 1' for n in range(11)) + "}]", "x.json:1: row: more than 10 columns"),
        ("x.csv", ",".join("abcdefghijk"), "x.csv:1: row: more than 10 columns"),
        ("x.tsv", "a\tb\n1\t2\n" + "1\t" * 10, "x.tsv:3: row: more than 10 columns"),
    ],
)
def test_rows_and_columns_beyond_the_limits_end_reading(tmp_path: Path, name: str, content: str, why: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    list(formats.rows(path))
    reading = Intake(strict=False)
    with pytest.raises(ValueError, match=r"the most read here; .*`python bank.py`") as caught:
        list(reading.rows(path, lambda row, _line: row, limits=LIMITS))
    assert str(caught.value).startswith(f"{tmp_path}/{why}, ")


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".tsv", ".jsonl.gz", ".csv.gz"])
def test_what_is_exactly_at_the_limits_is_read_as_without(tmp_path: Path, suffix: str) -> None:
    names = [f"c{n}" for n in range(10)]
    mark = "\t" if ".tsv" in suffix else ","
    wide = mark.join(names)
    lines = [json.dumps(dict.fromkeys(names, "x"))] * 100
    text = {".json": f"[{','.join(lines)}]", ".jsonl": "\n".join(lines)}.get(suffix.removesuffix(".gz"), "")
    text = text or f"{wide}\n" * 101
    path = tmp_path / f"x{suffix}"
    path.write_bytes(gzip.compress(text.encode()) if suffix.endswith(".gz") else text.encode())
    exact = Limits(len(text.encode()), 100, 10)
    assert list(formats.rows(path, exact)) == list(formats.rows(path))
    with pytest.raises(ValueError, match=r"bytes \(decompressed\)"):
        list(formats.rows(path, replace(exact, decompressed_bytes=len(text.encode()) - 1)))


def test_a_parquet_file_from_a_stranger_is_refused_with_a_way_out(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": ["x"]}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"x.parquet: .*convert it to JSON Lines, or .*`python bank.py`"):
        list(formats.rows(tmp_path / "x.parquet", LIMITS))
