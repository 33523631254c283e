"""Hostile bank files: whatever the bytes are, a bank comes back or a sentence that names the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crm.leaderboard.bank.bank import Bank, load_bank

VARIANTS = 240
"""Of each kind of damage; there are four."""
Rows = list[dict[str, Any]]

ROWS: dict[str, Rows] = {
    "bank.json": [{"name": "small", "baseline": "a"}],
    "queries.jsonl": [
        {"id": f"q{n}", "prompt": [{"role": "user", "content": f"«why» {n}\u2028?"}], "topic": "Tea"} for n in range(2)
    ],
    "responses.jsonl": [
        {"author": author, "query_id": f"q{n}", "text": f"{author}\r\n{n}\u2028\x1b[2J"}
        for author in "ab"
        for n in range(2)
    ],
}
FILES = st.sampled_from(sorted(ROWS))
DEEP: Any = "bottom"
for _ in range(40):
    DEEP = [DEEP]
WRONG = st.one_of(
    st.sampled_from(
        [
            *(None, True, 0, -1, 10**40, 0.5, float("nan"), float("-inf"), "", " ", "x\0y", "\ud800", "\u2028", "c"),
            *(
                "q0",
                "q1",
                "a",
                "\x1b[2J\n",
                "x" * 5_000,
                [],
                {},
                [None],
                [[]],
                [{}],
                ["\ud800"],
                DEEP,
                {"role": "user"},
            ),
            *([{"role": "judge", "content": "x"}], [{"role": "user", "content": 3}], [{"role": [], "content": "x"}]),
            [{"role": "user", "content": "half \udfff"}],
        ]
    ),
    st.text(max_size=6),
)
FRAGMENTS = st.sampled_from(
    [
        *(
            b"\0",
            b"\xff\xfe",
            b"\xed\xa0\x80",
            b"\\ud800",
            b"\\u0000",
            b"\xef\xbb\xbf",
            b"\xe2\x80\xa8",
            b"\r\n",
            b"\n",
        ),
        *(b"\n\n", b"\r", b'"', b"{", b"}", b"[", b"]", b"NaN", b"Infinity", b"1e999", b"-", b":", b",", b"null"),
        *(b"9" * 5_000, b"[" * 3_000, b'{"a":' * 3_000, b'{"name": 1, "name": 2}', b'{"id": "q0", "id": "q1"}'),
    ]
)


def encoded(name: str, rows: Rows, ending: str = "\n") -> bytes:
    """The rows as a file, as broken as they are: lone surrogates become bytes that are no UTF-8."""
    text = "".join(json.dumps(row, ensure_ascii=name != "responses.jsonl") + ending for row in rows)
    return text.encode("utf-8", "surrogatepass")


@st.composite
def spliced(draw: st.DrawFn) -> tuple[str, bytes]:
    """Fragments and any bytes within a good file, at its start, at its end, or instead of it."""
    name = draw(FILES)
    good = draw(st.sampled_from([b"", encoded(name, ROWS[name]), encoded(name, ROWS[name], "\r\n")]))
    place = draw(st.sampled_from([0, len(good), draw(st.integers(0, len(good)))]))
    middle = b"".join(draw(st.lists(FRAGMENTS | st.binary(max_size=8), min_size=1, max_size=6)))
    return name, good[:place] + middle + good[place:]


@st.composite
def flipped_or_cut(draw: st.DrawFn) -> tuple[str, bytes]:
    name = draw(FILES)
    data = bytearray(encoded(name, ROWS[name]))
    for place in draw(st.lists(st.integers(0, len(data) - 1), max_size=3)):
        data[place] ^= draw(st.integers(1, 255))
    return name, bytes(data[: draw(st.integers(0, len(data)))])


@st.composite
def wrong_values(draw: st.DrawFn) -> tuple[str, bytes]:
    name = draw(FILES)
    rows = [dict(row) for row in ROWS[name]]
    field, value = draw(st.sampled_from(sorted(rows[0]))), draw(WRONG)
    for row in rows if draw(st.booleans()) else rows[-1:]:
        row[field] = value
    return name, encoded(name, rows)


@st.composite
def wrong_fields(draw: st.DrawFn) -> tuple[str, bytes]:
    """Fields renamed, left out or added; rows repeated, left out or of another kind."""
    name = draw(FILES)
    rows: Any = [dict(row) for row in ROWS[name]]
    field, other = draw(st.sampled_from(sorted(rows[0]))), draw(st.sampled_from(["", "x", "id", "\ud800", "a\0"]))
    if draw(st.booleans()):
        rows[-1][other] = rows[-1].pop(field) if draw(st.booleans()) else draw(WRONG)
    rows.insert(draw(st.integers(0, len(rows))), draw(st.sampled_from([rows[0], rows[-1]]) | WRONG))
    return name, encoded(name, rows[draw(st.integers(0, 2)) :])


@pytest.mark.slow
@pytest.mark.parametrize("damage", [spliced, flipped_or_cut, wrong_values, wrong_fields])
def test_any_bytes_give_a_bank_or_a_sentence(
    tmp_path: Path, damage: Callable[[], st.SearchStrategy[tuple[str, bytes]]]
) -> None:
    for name, rows in ROWS.items():
        (tmp_path / name).write_bytes(encoded(name, rows))
    good = load_bank(tmp_path)
    (tmp_path / "again").mkdir()
    seen: set[tuple[str, bytes]] = set()

    @settings(derandomize=True, database=None, deadline=None, max_examples=VARIANTS * 2)
    @given(damage())
    def one(spoiled: tuple[str, bytes]) -> None:
        name, data = spoiled
        seen.add(spoiled)
        try:
            (tmp_path / name).write_bytes(data)
            check(tmp_path, name)
        finally:
            (tmp_path / name).write_bytes(encoded(name, ROWS[name]))

    one()
    assert len(seen) >= VARIANTS
    assert load_bank(tmp_path) == good, "the files that were damaged are good ones"


def check(folder: Path, name: str) -> None:
    try:
        bank = load_bank(folder)
    except ValueError as error:
        assert type(error) is ValueError, f"{type(error).__name__} reached the user: {error}"
        said = str(error)
        # A spoiled queries.jsonl can show as a surplus in responses.jsonl, a bank.json never elsewhere.
        assert any(said.startswith(f"{folder / file}:") for file in ([name] if name == "bank.json" else ROWS))
        assert said.isprintable()
        assert len(said) < 1_500
        return
    assert isinstance(bank, Bank)
    bank.save(folder / "again")
    assert load_bank(folder / "again") == bank
