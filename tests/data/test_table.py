"""A table of one's own: mapped columns, winners and criteria, each checked by hand."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from crm.data import table
from crm.data.config import DataConfig
from crm.io.rows import Intake
from crm.schema import Message, Preference
from tests.made_files import chat, write_rows

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


def plain(**changes: Any) -> dict[str, Any]:
    return {"prompt": "p", "response_a": "x", "response_b": "y", "winner": "a", **changes}


def write(tmp_path: Path, *rows: dict[str, Any]) -> Path:
    return write_rows(tmp_path / "rows.jsonl", list(rows))


def refusals(reading: Intake) -> list[tuple[int, str, str]]:
    return [(rejection.line, rejection.field, rejection.why) for rejection in reading.rejections]


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
    records, _ = read(write(tmp_path, plain(criteria_a=cell)))
    assert records[0].criteria_a == criteria


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json", "parquet"])
def test_every_format_is_the_record_written_by_hand(tmp_path: Path, kind: str) -> None:
    row = {**ROW, "id": "7"}
    if kind != "csv":
        messages = {"question": chat(ROW["question"]), "answer_1": chat("", ROW["answer_1"])[1:]}
        row |= messages | {"likes_1": ["short", "kind"]}
    records, reading = read(write_rows(tmp_path / f"rows.{kind}", [row]), MAPPED)
    assert records == [BY_HAND]
    assert [name for name in reading.counts if name.startswith("unread")] == ["unread_column_colour"]


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


def test_ids_are_kept_or_made_of_the_content(tmp_path: Path) -> None:
    rows = [plain(id="7"), plain(id=8), plain(id=""), plain(id=None), plain(winner="b"), plain(id=0.5), plain(id="7")]
    records, reading = read(write(tmp_path, *rows))
    assert [record.id for record in records][:2] == ["7", "8"]
    assert len({record.id for record in records}) == 5
    assert all(record.id.startswith("table-") for record in records[2:])
    assert [(line, field) for line, field, _ in refusals(reading)] == [(6, "id"), (7, "id")]


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"promt": "question"}, r"data\.columns\.promt: no such field, there are prompt, .*; did you mean prompt\?"),
        (
            {"prompt": "questions"},
            r"no column 'questions' for prompt; .*it has question, ans.*; did you mean question\?",
        ),
        (
            {"winner": "prompt"},
            r"data\.columns gives the column 'prompt' to another field; write 'data\.columns=\[.*,\"prompt=",
        ),
        (
            {},
            r"no column 'prompt' for prompt; it has question.*; .* with data\.name=table 'data\.columns=.*prompt=",
        ),
    ],
)
def test_columns_that_are_not_there_are_named_with_the_nearest(
    tmp_path: Path, columns: dict[str, str], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        read(write(tmp_path, ROW), columns)


@pytest.mark.parametrize(
    ("row", "field", "why"),
    [
        (plain(prompt=" "), "prompt", "blank"),
        ({"prompt": "p", "response_a": "x", "winner": "a"}, "response_b", "missing"),
        (plain(winner=["a"]), "winner", "expected a text or a number, got a list"),
        (
            plain(criteria_a="[x"),
            "criteria_a",
            "not valid JSON in UTF-8: expected value at line 1 column 2; "
            "a list in a text must be JSON (Python: json.dumps)",
        ),
        (plain(criteria_b=[" "]), "criteria_b[0]", "blank, got ' '"),
    ],
)
def test_bad_rows_between_good_ones(tmp_path: Path, row: dict[str, Any], field: str, why: str) -> None:
    records, reading = read(write(tmp_path, plain(id="1"), row, plain(id="2")))
    assert [record.id for record in records] == ["1", "2"]
    assert refusals(reading) == [(2, field, why)]


CHOSEN = {"prompt": "p", "chosen": "Yes", "rejected": "No"}


def fields_of(record: Preference) -> tuple[str, str, tuple[str, ...], tuple[str, ...]]:
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
    assert {fields_of(record) for record in records} == {("Yes", "No", ("short", "kind"), ("blunt",))}
    assert {record.winner for record in records} == {"a", "b"} and {record.topic for record in records} == {"Art"}
    assert reading.counts["ties"] == 0


def test_layouts_that_cannot_be(tmp_path: Path) -> None:
    path = write(tmp_path, CHOSEN)
    with pytest.raises(ValueError, match=r"data\.columns\.winner: no such field, there are prompt, chosen, rejected"):
        read(path, {"chosen": "chosen", "winner": "x"})
    with pytest.raises(ValueError, match=r"data\.winners: a table of chosen and rejected responses says who won"):
        read(path, winners={"x": "a"})


def shown(message: str) -> list[str]:
    """The words of a command line that a sentence shows, as a shell gives them to the command."""
    return [word for word in shlex.split(message) if word.startswith("data.winners=")]


def given(word: str) -> Mapping[str, str]:
    """As Hydra's parser and our settings take the word."""
    (override,) = OverridesParser.create().parse_overrides([word])
    winners = OmegaConf.to_container(OmegaConf.create(override.value()), resolve=True)
    return DataConfig(name="table", root="", path="x", winners=winners).winners or {}


@pytest.mark.parametrize(
    ("cells", "winners", "unknown"),
    [
        ("1 2 3 4", {}, "'1', '2', '3', '4'"),
        ("1 0", {}, "'1', '0'"),
        ("-1 1", {}, "'-1', '1'"),
        ("1 2 3", {"3": "tie"}, "'1', '2'"),
        ("-3 -2 0 1 2", {}, "'-3', '-2', '0', '1', '2'"),
    ],
)
def test_a_number_beside_others_has_to_be_mapped(
    tmp_path: Path, cells: str, winners: dict[str, str], unknown: str
) -> None:
    path = write(tmp_path, *(plain(winner=cell, prompt=f"p{n}") for n, cell in enumerate(cells.split())))
    (first, *_) = read(path, winners=winners)[1].rejections
    assert f"rows.jsonl:1: winner: {unknown}: not known; say what each means" in str(first)
    whole = given(shown(str(first))[0])
    records = read(path, winners=whole)[0]
    assert len(records) == len(cells.split())


@pytest.mark.parametrize(("votes", "sides"), [((1, 1), "bb"), ((0, 0), "aa"), ((0, 1), "ab"), ((1, 2), "")])
def test_a_number_names_the_column_that_ends_in_it(tmp_path: Path, votes: tuple[int, int], sides: str) -> None:
    columns = {"response_a": "response_0", "response_b": "Response (1)", "winner": "better_response_id"}
    rows = [{"prompt": "p", "response_0": "x", "Response (1)": "y", "better_response_id": vote} for vote in votes]
    records, reading = read(write(tmp_path, *rows), columns)
    assert "".join(record.winner for record in records) == sides and reading.rejected == 2 - len(sides)


def test_a_model_that_wrote_both_responses_is_no_winner(tmp_path: Path) -> None:
    rows = [ROW | {"better": "gpt-x", "model_2": other} for other in ("GPT-X", "claude-y")]
    records, reading = read(write(tmp_path, *rows), MAPPED)
    assert [record.winner for record in records] == ["a"]
    assert "'gpt-x' can be read in two ways; map it: " in str(reading.rejections[0])
