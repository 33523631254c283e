"""Bad files of one's own, by every reader: nothing but a sentence, and counts that add up."""

from __future__ import annotations

import csv
import gzip
import io
import json
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from crm.io.intake import Intake
from crm.io.untrusted import MAX_DEPTH
from crm.schema import Preference
from crm.votes.catalogue import OWN, Read
from crm.votes.own import table
from crm.votes.public import personalized_rewardbench

Row = dict[str, Any]

ASK = {"role": "user", "content": "Wie heißt «das»?"}
TURNS = [[ASK, {"role": "assistant", "content": text}] for text in ("Ein Wort; kurz", "Zwei,\nWorte \U0001f600")]
PAIR = {"chosen": TURNS[0], "rejected": TURNS[1]}
TEXTS = {"prompt": "Why?", "chosen": "Because", "rejected": "No\nidea"}
VALID: dict[str, list[Row]] = {
    "records": [
        {"id": f"r{n}", "prompt": [ASK], "response_a": TURNS[0][1:], "response_b": TURNS[1][1:], "winner": "a"}
        | {"criteria_a": ["kurz", "klar"], "topic": "Art", "source": "x"}
        for n in range(3)
    ],
    "train_rows": [
        {"model_a": TURNS[0], "model_b": TURNS[1], "human_winner": "model_b", "a_criteria": ["kurz"]}
        | {"b_criteria": [f"lang {n}"], "a_broad_criteria_topic": ["Form"], "b_broad_criteria_topic": ["Form"]}
        for n in range(3)
    ],
    "eval_rows": [
        {"idx": n, "prompt": ASK["content"], "model_a": TURNS[0], "model_b": TURNS[1]}
        | {"criteria": ["kurz"], "preference": "model_a"}
        for n in range(3)
    ],
    "arena": [
        {"id": n, "model_a": "x", "model_b": "y", "prompt": '["Hi", "More"]', "response_a": '["A1", "A2"]'}
        | {"response_b": '["B1", null]', "winner_model_a": 0, "winner_model_b": 1, "winner_tie": 0}
        for n in range(3)
    ],
    "arena conversations": [
        {"id": f"c{n}", "model_a": "x", "model_b": "y", "winner": "both_bad", "language": "de"}
        | {
            f"conversation_{side}": [
                {"role": turn["role"], "content": [{"type": "text", "text": turn["content"], "image": None}]}
                for turn in TURNS[number]
            ]
            for number, side in enumerate("ab")
        }
        for n in range(3)
    ],
    "trl": [{"id": str(n), **TEXTS, "margin": 0.5} for n in range(3)],
    "trl conversations": [{"id": str(n), **PAIR} for n in range(3)],
    "rewardbench": [{"id": n, **TEXTS, "chosen_model": "x", "rejected_model": "y", "subset": "s"} for n in range(3)],
    "rewardbench 2": [
        {
            "id": str(n),
            "prompt": "p",
            "chosen": ["a", "b"],
            "rejected": ["c", "d", "e"],
            "num_correct": 2,
            "subset": "s",
        }
        for n in range(3)
    ],
    "personalized_rewardbench": [
        {"id": str(n), "question": "Why?", "chosen": "x", "rejected": "y", "category": "Art", "narrative": "z"}
        | {"profile": [{"id": "1", "category": "Art", "text": "t"}]}
        | {"rubric_aspects": [{"aspect": "short", "reason": "r", "evidence": "e"}]}
        for n in range(3)
    ],
    "table": [
        {"id": str(n), "prompt": "p, q", "response_a": 'x "y"', "response_b": "z\r\nz", "winner": "left"}
        | {"criteria_a": "kurz; klar", "author_a": "m", "topic": "Art"}
        for n in range(3)
    ],
}
VALID["oracle rubric"] = VALID["personalized_rewardbench"]
VALID["mapped table"] = [
    {"question": f"p{n}", "one": "x", "two": "y", "better": str(n % 2), "why": None, "prompt": 3} for n in range(3)
]
MAPPED = {"prompt": "question", "response_a": "one", "response_b": "two", "winner": "better", "reason": "why"}
READERS: dict[str, Read] = {
    **{name: source.read for name, source in OWN.items()},
    "arena conversations": OWN["arena"].read,
    "trl conversations": OWN["trl"].read,
    "rewardbench 2": OWN["rewardbench"].read,
    "oracle rubric": partial(personalized_rewardbench.read, oracle_rubric=True),
    "mapped table": partial(table.read, columns=MAPPED, winners={"0": "a", "1": "b"}),
}
SUFFIXES = (".jsonl", ".json", ".csv", ".tsv", ".parquet", ".jsonl.gz", ".json.gz", ".csv.gz", ".tsv.gz")
ONLY_LISTS = ("records", "train_rows", "eval_rows")
"""Readers that take no JSON text for a conversation: a CSV cell cannot hold theirs."""


def encoded(rows: list[Row], suffix: str) -> bytes:
    """The rows as a file, as broken as they are: lone surrogates become bytes that are no UTF-8."""
    kind = suffix.removesuffix(".gz")
    if kind == ".parquet":
        return _parquet(rows)
    if kind in (".csv", ".tsv"):
        data = _table(rows, "\t" if kind == ".tsv" else ",")
    elif kind == ".json":
        data = json.dumps(rows).encode()
    else:
        data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode("utf-8", "surrogatepass")
    return gzip.compress(data, 1, mtime=0) if suffix.endswith(".gz") else data


def _table(rows: list[Row], delimiter: str) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer.writerow(names)
    for row in rows:
        cells = [row.get(name) for name in names]
        writer.writerow([cell if cell is None or isinstance(cell, str) else json.dumps(cell) for cell in cells])
    return text.getvalue().encode("utf-8", "surrogatepass")


def _parquet(rows: list[Row]) -> bytes:
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [_column([row.get(name) for row in rows]) for name in names]
    file = io.BytesIO()
    clean = [name.encode("utf-8", "replace").decode() for name in names]
    pq.write_table(pa.Table.from_arrays(columns, names=clean), file, compression="none", row_group_size=2)
    return file.getvalue()


def _column(values: list[Any]) -> pa.Array:
    try:
        column = pa.array(values)
        if "struct<>" not in str(column.type):  # which cannot be written
            return column
    except (pa.ArrowException, UnicodeEncodeError, OverflowError):  # types that do not mix
        pass
    data = [value if isinstance(value, str) else json.dumps(value) for value in values]
    return pa.array([text.encode("utf-8", "surrogatepass") for text in data], pa.binary()).view(pa.string())


@lru_cache
def valid_file(name: str, suffix: str) -> bytes:
    return encoded(VALID[name], suffix)


def read_all(read: Read, path: Path, *, strict: bool) -> tuple[list[Preference], Intake, str]:
    """Records, counts, and the sentence of the ``ValueError`` that ended the reading, if one did."""
    reading, records = Intake(strict=strict), []
    try:
        for record in read(path, reading):
            assert isinstance(record, Preference)
            records.append(record)
    except ValueError as error:
        assert type(error) is ValueError, f"{type(error).__name__} reached the user: {error}"
        return records, reading, str(error)
    return records, reading, ""


def check(read: Read, path: Path) -> list[Preference]:
    records, reading, ending = read_all(read, path, strict=False)
    assert reading.read == reading.kept + reading.rejected
    assert len(reading.rejections) == reading.rejected
    said = [*map(str, reading.rejections), *([ending] if ending else [])]
    for sentence in said:
        assert sentence.startswith(str(path))
        assert sentence.isprintable()
        assert len(sentence) < 1_200
    _, strict, first = read_all(read, path, strict=True)
    assert first == (said[0] if said else "")
    assert strict.rejected == 0
    assert strict.read == strict.kept
    return records


DEEP: Any = "bottom"
for _ in range(MAX_DEPTH + 8):
    DEEP = [DEEP]
WRONG = (None, float("nan"), 10**40, "x\0y", "\ud800", "\x1b[2J", [], [{"role": []}], DEEP)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", READERS)
def test_the_files_that_are_damaged_were_good(tmp_path: Path, name: str, suffix: str) -> None:
    path = tmp_path / f"rows{suffix}"
    path.write_bytes(valid_file(name, suffix))
    records, reading, ending = read_all(READERS[name], path, strict=False)
    assert (reading.read, ending) == (3, "")
    assert reading.kept == (0 if name in ONLY_LISTS and suffix[:4] in (".csv", ".tsv") else 3), reading.rejections
    assert len(records) == reading.kept * (3 if name == "rewardbench 2" else 1)


@pytest.mark.parametrize("name", READERS)
def test_the_rows_around_a_bad_one_survive_as_they_were(tmp_path: Path, name: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(valid_file(name, ".jsonl"))
    good = check(READERS[name], path)
    share, refused = len(good) // 3, 0
    for column, value in product(VALID[name][1], WRONG):
        bad = {**VALID[name][1], column: value}
        path.write_bytes(encoded([VALID[name][0], bad, VALID[name][2]], ".jsonl"))
        records = check(READERS[name], path)
        assert records[:share] == good[:share]
        assert records[-share:] == good[-share:]
        refused += len(records) == 2 * share
    assert refused >= len(WRONG)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_that_ends_too_soon_gives_a_sentence(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"rows{suffix}"
    whole = valid_file("trl", suffix)
    path.write_bytes(whole[: len(whole) // 2 + 4])
    records, reading, ending = read_all(READERS["trl"], path, strict=False)
    assert len(records) < 3 and (ending or reading.rejected)
    check(READERS["trl"], path)
