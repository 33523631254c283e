"""Files that people have every day: spreadsheets' encodings and separators, JSON Lines called .json, parts of a set."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path

import pytest

from crm.config import compose
from crm.dataset.load import load_data
from crm.io.intake import Intake
from crm.io.rows import data_files, rows
from crm.io.untrusted import Limits
from crm.votes.catalogue import location
from crm.votes.own import table

ROWS = [{"prompt": f"p{n}", "response_a": f"é; {n}", "response_b": "y", "winner": "ab"[n % 2]} for n in range(3)]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)
CSV = "prompt;response_a;response_b;winner\r\n" + "".join(
    f'{row["prompt"]};"{row["response_a"]}";{row["response_b"]};{row["winner"]}\r\n' for row in ROWS
)


def prompts(path: Path) -> list[str]:
    return [row.query for row in table.read(path, Intake(strict=True), columns={}, winners={})]


@pytest.mark.parametrize("first", ["sep=;\r\n", '"sep=;"\n', "SEP=;\n", "\ufeffsep=;\r\n"])
def test_a_first_line_that_names_the_separator(tmp_path: Path, first: str) -> None:
    path = tmp_path / "votes.csv"
    path.write_bytes((first + CSV).encode())
    assert prompts(path) == ["p0", "p1", "p2"]
    path.write_bytes((first + CSV + "p3;x\r\n").encode())
    assert next(number for number, row in rows(path) if isinstance(row, Exception)) == 6, (
        "lines count from the file's first"
    )
    path.write_bytes((first + CSV).replace(";", "|").replace("é|", "é;").encode())
    assert prompts(path) == ["p0", "p1", "p2"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["votes.csv", "votes.tsv", "it's.jsonl", "votes.json", "votes.csv.gz"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf_16_says_how_to_convert_and_the_command_works(tmp_path: Path, name: str, encoding: str) -> None:
    path = tmp_path / name
    text = LINES if "json" in name else CSV
    data = (b"\xfe\xff" if encoding == "utf-16-be" else b"") + text.encode(encoding)
    path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    with pytest.raises(ValueError, match=r"is UTF-16, .* save it as UTF-8") as caught:
        list(rows(path))
    _, _, command = str(caught.value).partition(", or: ")
    assert bool(command) != name.endswith("gz")
    if command:
        subprocess.run(["/bin/bash", "-c", command], cwd=tmp_path, check=True)
        assert prompts(tmp_path / f"utf8-{name}") == ["p0", "p1", "p2"]


@pytest.mark.parametrize("text", [LINES, "\ufeff" + LINES, LINES.replace("\n", "\r\n"), json.dumps(ROWS, indent=1)])
@pytest.mark.parametrize("limits", [None, Limits(10_000, 10, 10)])
def test_json_lines_called_json_are_read(tmp_path: Path, text: str, limits: Limits | None) -> None:
    path = tmp_path / "votes.json"
    path.write_text(text)
    assert [row for _, row in rows(path, limits)] == ROWS
    assert prompts(path) == ["p0", "p1", "p2"]


@pytest.mark.parametrize("text", ['{\n"a": 1\n}', '{\n"a": 1\n}\n{\n"a": 2\n}', '[{"a": 1}] [{"a": 2}]'])
def test_other_json_says_what_is_expected(tmp_path: Path, text: str) -> None:
    path = tmp_path / "votes.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="several objects are written as one array, or one a line"):
        list(rows(path))


def parts(tmp_path: Path, *names: str) -> Path:
    for name in names:
        path = tmp_path / "set" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(LINES)
    return tmp_path / "set"


PARTS = [
    ["train-00000-of-2.jsonl", "train-00001-of-2.jsonl", "test-00000-of-1.jsonl"],
    ["votes_train.jsonl", "votes_test.jsonl"],
    ["train/0.jsonl", "test/0.jsonl"],
    ["data/train.jsonl", "data/validation.jsonl"],
]


@pytest.mark.parametrize("names", PARTS)
def test_a_folder_of_parts_asks_which_and_what_it_shows_is_read(tmp_path: Path, names: list[str]) -> None:
    folder = parts(tmp_path, *names)
    with pytest.raises(ValueError, match="which is meant") as caught:
        location("table", root="", path=str(folder))
    shown = [word.removeprefix("data.path=") for word in str(caught.value).split() if word.startswith("data.path=/")]
    found = [data_files(location("table", root="", path=path)) for path in shown[1:]]
    assert sorted(file for files in found for file in files) == sorted(folder / name for name in names)


@pytest.mark.parametrize(
    "names", [["train-0.jsonl", "train-1.jsonl"], ["latest.jsonl", "trained.jsonl"], ["a/test.jsonl"]]
)
def test_a_folder_of_one_part_is_read(tmp_path: Path, names: list[str]) -> None:
    folder = parts(tmp_path, *names)
    assert len(data_files(location("table", root="", path=str(folder)))) == len(names)


def test_a_pattern_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no such file; check the pattern"):
        data_files(tmp_path / "train-*")


def test_all_votes_of_ones_own_can_be_evaluated_whole(tmp_path: Path) -> None:
    path = parts(tmp_path, "votes.jsonl") / "votes.jsonl"
    path.write_text("".join(json.dumps({**row, "criteria_a": "short"}) + "\n" for row in ROWS))
    settings = ["judge=length", "data=table", f"data.path={path}", "data.split=all"]
    splits = load_data(**vars(compose("evaluate", settings, tmp_path).data), criteria="own")
    assert (splits.train, splits.validation, len(splits.suites["D"])) == ([], [], 3)
    with pytest.raises(ValueError, match=r"data\.split='all': expected auto, but for records"):
        compose("evaluate", ["judge=length", "data=simulation", "data.split=all"], tmp_path)
    with pytest.raises(ValueError, match=r"test_fraction=1\.0.*data\.split=all evaluates every row"):
        compose("evaluate", ["judge=length", *settings[1:3], "data.test_fraction=1.0"], tmp_path)
