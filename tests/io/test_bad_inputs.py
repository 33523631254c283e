"""At least 3,000 bad files over every reader of files of one's own: nothing but a sentence, and counts that add up.

Every reader meets every kind of damage in every format; one example is one file read by one reader, once leniently and
once strictly. Each test counts the distinct files it made, so that the total holds whichever tests are run.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet as pq

from crm.io.intake import Intake
from crm.io.untrusted import MAX_DEPTH
from crm.schema import Preference
from crm.votes.catalogue import OWN, Read
from crm.votes.own import table
from crm.votes.public import personalized_rewardbench

TOTAL = 3_000
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
WRONG = st.one_of(
    st.sampled_from(
        [
            *(None, True, 0, -1, 2**63 - 1, 10**40, 0.5, float("nan"), float("inf"), "", " ", "a", "0", "[", "[{"),
            *("x\0y", "\ud800", "[" * 5_000, '[{"role": "user"', '["\\ud800"]', '["\\u0000"]', "[NaN]", "-" * 400),
            *('[{"role": "user", "content": {"a": 1}}]', "['x', ", "\u2028", "\x1b[2J", "x" * 50_000, "=1+1"),
            *([], {}, [None], [[]], [{}], [""], ["\ud800"], {"role": "user"}, DEEP, [ASK, None], [ASK] * 3),
            *([{"role": "judge", "content": "x"}], [{"role": "user", "content": 3}], [{"role": [], "content": "x"}]),
            *([{"role": "user", "content": [{"type": "image", "image": "x"}]}], ["x"] * 100, [{"aspect": []}]),
        ]
    ),
    st.text(max_size=8),
    st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3), st.lists, max_leaves=4),
)
NAMES = st.sampled_from(
    ["", " ", "x", "id", "ID", "images", "a\x1b[2J\nb", "\ud800", "x" * 400, "num_correct"]
) | st.text(max_size=4)
FRAGMENTS = st.sampled_from(
    [
        *(b'"', b'""', b",", b";", b"\t", b"\n", b"\r", b"\r\n", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80"),
        *(
            b"[",
            b"]",
            b"{",
            b"}",
            b":",
            b"null",
            b"NaN",
            b"1e999",
            b"PAR1",
            b"\x1f\x8b\x08\0",
            b"\\ud800",
            b"\xe2\x80\xa8",
        ),
    ]
)


@st.composite
def soup(draw: st.DrawFn, name: str, suffix: str) -> bytes:
    """Bytes of any kind, most often behind the start of a valid file; what should be compressed sometimes is."""
    start = draw(st.sampled_from([b"", valid_file(name, suffix.removesuffix(".gz"))]))[: draw(st.integers(0, 400))]
    data = start + b"".join(draw(st.lists(FRAGMENTS | st.binary(max_size=12), max_size=14)))
    return gzip.compress(data, 1, mtime=0) if suffix.endswith(".gz") and draw(st.booleans()) else data


@st.composite
def truncated(draw: st.DrawFn, name: str, suffix: str) -> bytes:
    data = valid_file(name, suffix)
    return data[: draw(st.integers(0, len(data) - 1))]


@st.composite
def flipped(draw: st.DrawFn, name: str, suffix: str) -> bytes:
    data = bytearray(valid_file(name, suffix))
    for position in draw(st.lists(st.integers(0, len(data) - 1), min_size=1, max_size=4)):
        data[position] ^= draw(st.integers(1, 255))
    return bytes(data)


@st.composite
def wrong_values(draw: st.DrawFn, name: str, suffix: str) -> bytes:
    rows = [dict(row) for row in VALID[name]]
    for _ in range(draw(st.integers(1, 2))):
        column, value = draw(st.sampled_from(sorted(rows[0]))), draw(WRONG)
        for row in rows if draw(st.booleans()) else rows[:1]:
            row[column] = value
    return encoded(rows, suffix)


@st.composite
def wrong_columns(draw: st.DrawFn, name: str, suffix: str) -> bytes:
    rows = [dict(row) for row in VALID[name]]
    column, other = draw(st.sampled_from(sorted(rows[0]))), draw(NAMES)
    for row in rows if draw(st.booleans()) else rows[:1]:
        kept = row.pop(column) if draw(st.booleans()) else row[column]
        if draw(st.booleans()):
            row[other] = kept
    if draw(st.booleans()):
        rows += [rows[0], {}]
    return encoded(rows, suffix)


DAMAGE: dict[str, Callable[[str, str], st.SearchStrategy[bytes]]] = {
    "soup": soup,
    "truncated": truncated,
    "flipped": flipped,
    "wrong values": wrong_values,
    "wrong columns": wrong_columns,
}
EACH = -(-TOTAL // (len(READERS) * len(DAMAGE)))
"""Distinct files that each of the tests below must have read."""


def for_each(strategy: st.SearchStrategy[bytes], examples: int, use: Callable[[bytes], None]) -> None:
    @settings(derandomize=True, database=None, deadline=None, max_examples=examples)
    @given(strategy)
    def one(data: bytes) -> None:
        use(data)

    one()


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("name", READERS)
def test_bad_files_give_sentences_and_counts_that_add_up(tmp_path: Path, name: str, damage: str) -> None:
    seen: set[tuple[str, bytes]] = set()

    def read_one(path: Path, data: bytes) -> None:
        seen.add((path.name, data))
        path.write_bytes(data)
        check(READERS[name], path)

    for suffix in SUFFIXES:
        use = partial(read_one, tmp_path / f"rows{suffix}")
        for_each(DAMAGE[damage](name, suffix), 30 if suffix == ".parquet" else 9, use)
    assert len(seen) >= EACH


def test_the_tests_above_read_3000_distinct_files_and_every_reader_is_among_them() -> None:
    assert EACH * len(READERS) * len(DAMAGE) >= TOTAL
    assert set(OWN) <= set(READERS) == set(VALID)


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
    share = len(good) // 3

    @settings(derandomize=True, database=None, deadline=None, max_examples=40)
    @given(st.sampled_from(sorted(VALID[name][1])), WRONG)
    def read_one(column: str, value: Any) -> None:
        bad = {**VALID[name][1], column: value}
        path.write_bytes(encoded([VALID[name][0], bad, VALID[name][2]], ".jsonl"))
        records = check(READERS[name], path)
        assert records[:share] == good[:share]
        assert records[-share:] == good[-share:]
        assert len(records) >= 2 * share

    read_one()
