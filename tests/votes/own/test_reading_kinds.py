"""What no reader of one's own votes may take for a vote, or leave out: equal pairs, unanswered turns, JSON, copies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from crm.config import compose
from crm.dataset.load import load_data
from crm.io.intake import Intake
from crm.schema import Message, Preference
from crm.votes.own import arena, published, records, table, trl
from crm.votes.public import personalized_rewardbench, rewardbench

Row = dict[str, Any]
Read = Callable[[Path, Intake], Iterator[Preference]]


def said(*turns: str) -> list[dict[str, str]]:
    """Turns of a user and an assistant, by turns."""
    return [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(turns)]


def answer(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def train_row(first: str, second: str) -> Row:
    topics = {"a_broad_criteria_topic": ["t"], "b_broad_criteria_topic": ["t"]}
    criteria = {"a_criteria": ["short"], "b_criteria": ["long"]}
    sides = {"model_a": said("Why?", first), "model_b": said("Why?", second)}
    return {**sides, **criteria, **topics, "human_winner": "model_a"}


READERS: dict[str, tuple[Read, Callable[[str, str], Row]]] = {
    "table": (
        partial(table.read, columns={}, winners={}),
        lambda a, b: {"prompt": "Why?", "response_a": a, "response_b": b, "winner": "a"},
    ),
    "pairs": (
        partial(table.read, columns={}, winners={}),
        lambda a, b: {"prompt": "Why?", "chosen": a, "rejected": b},
    ),
    "trl": (trl.read, lambda a, b: {"prompt": "Why?", "chosen": a, "rejected": b}),
    "arena": (
        arena.read,
        lambda a, b: {
            "model_a": "m",
            "model_b": "n",
            "winner": "model_a",
            "conversation_a": said("Why?", a),
            "conversation_b": said("Why?", b),
        },
    ),
    "train_rows": (published.read_train, train_row),
    "rewardbench": (rewardbench.read, lambda a, b: {"prompt": "Why?", "chosen": a, "rejected": b}),
}
WITH_IDS: dict[str, tuple[Read, Callable[[str, str], Row]]] = {
    "records": (
        records.read,
        lambda a, b: {
            "id": a + b,
            "prompt": said("Why?"),
            "response_a": answer(a),
            "response_b": answer(b),
            "winner": "a",
        },
    ),
    "eval_rows": (
        published.read_eval,
        lambda a, b: {
            "idx": a + b,
            "prompt": "Why?",
            "model_a": answer(a),
            "model_b": answer(b),
            "criteria": ["short"],
            "preference": "model_a",
        },
    ),
    "personalized": (
        partial(personalized_rewardbench.read, oracle_rubric=False),
        lambda a, b: {"id": a + b, "question": "Why?", "chosen": a, "rejected": b},
    ),
}


def read(path: Path, reader: Read, *rows: Row, strict: bool = True) -> tuple[list[Preference], Intake]:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    reading = Intake(strict=strict)
    return list(reader(path, reading)), reading


@pytest.mark.parametrize("name", READERS | WITH_IDS)
def test_equal_responses_are_left_out_and_counted_by_every_reader(tmp_path: Path, name: str) -> None:
    reader, row = (READERS | WITH_IDS)[name]
    rows, reading = read(tmp_path / "rows.jsonl", reader, row("Yes.", "No."), row("Yes.", "Yes."), row("Yes.", "yes."))
    assert len(rows) == 2 and reading.counts["dropped_identical_responses"] == 1
    assert (reading.read, reading.kept, reading.rejected) == (3, 3, 0)


def test_responses_that_differ_in_what_no_model_reads_are_equal(tmp_path: Path) -> None:
    row = {"prompt": said("Why?"), "chosen": [{**answer("x")[0], "reasoning_content": "hm"}], "rejected": answer("x")}
    assert read(tmp_path / "rows.jsonl", trl.read, row)[0] == []


@pytest.mark.parametrize("name", READERS)
def test_equal_rows_without_ids_are_so_many_votes_in_one_file_or_in_several(tmp_path: Path, name: str) -> None:
    reader, row = READERS[name]
    votes = [row("Yes.", "No."), row("No.", "Yes."), row("Yes.", "No."), row("Yes.", "No.")]
    one = [record.id for record in read(tmp_path / "one.jsonl", reader, *votes)[0]]
    assert len(set(one)) == 4 and one[2:] == [f"{one[0]}-2", f"{one[0]}-3"]
    shards = tmp_path / "shards"
    shards.mkdir()
    for number, vote in enumerate(votes):
        (shards / f"{number}.jsonl").write_text(json.dumps(vote) + "\n")
    assert [record.id for record in reader(shards, Intake(strict=True))] == one, "ids do not depend on the shards"


@pytest.mark.parametrize("strict", [True, False])
def test_an_id_in_two_files_is_refused_or_left_out(tmp_path: Path, strict: bool) -> None:
    for number in (1, 2):
        row = {**READERS["table"][1]("x", f"y{number}"), "id": "same", "criteria_a": "short"}
        (tmp_path / f"{number}.jsonl").write_text(json.dumps(row) + "\n")
    settings = ["data=table", f"data.path={tmp_path}", f"data.strict={strict}", "data.split=all"]
    data = vars(compose("evaluate", ["judge=length", *settings], tmp_path).data)
    if strict:
        with pytest.raises(ValueError, match="'same' is also in another file"):
            load_data(**data, criteria="own")
        return
    splits = load_data(**data, criteria="own")
    assert (len(splits.suites["D"]), splits.counts["rejected"]) == (1, 1)


@pytest.mark.parametrize("last", ["user", "system"])
@pytest.mark.parametrize("name", ["records", "trl", "table", "train_rows"])
def test_a_response_ends_with_the_assistant(tmp_path: Path, name: str, last: str) -> None:
    reader, row = (READERS | WITH_IDS)[name]
    unanswered = row("Yes.", "No.")
    for field in ("response_a", "chosen", "model_a"):
        if field in unanswered:
            given = unanswered[field]
            turns = given if isinstance(given, list) else answer(given)
            unanswered[field] = [*turns, {"role": last, "content": "And then?"}]
    kept, reading = read(tmp_path / "rows.jsonl", reader, unanswered, row("Yes.", "Nope."), strict=False)
    assert len(kept) == 1
    assert f"a response ends with the assistant's turn, got the {last}'s" in str(reading.rejections[0])


def test_unanswered_rows_of_the_arena_are_left_out_and_counted(tmp_path: Path) -> None:
    reader, row = READERS["arena"]
    unanswered = {**row("Yes.", "No."), "conversation_b": said("Why?", "No.", "And then?")}
    kept, reading = read(tmp_path / "rows.jsonl", reader, unanswered, row("Yes.", "No."))
    assert (len(kept), reading.counts["dropped_unanswered"]) == (1, 1)


@pytest.mark.parametrize("field", ["tool_calls", "function_call"])
@pytest.mark.parametrize("content", [{"content": ""}, {"content": None}, {}])
def test_a_turn_that_only_calls_a_tool_is_no_empty_response(tmp_path: Path, field: str, content: Row) -> None:
    calls = {"role": "assistant", **content, field: [{"function": {"name": "weather"}}]}
    row = {"prompt": said("Why?"), "chosen": [calls], "rejected": answer("No.")}
    _, reading = read(tmp_path / "rows.jsonl", trl.read, row, strict=False)
    assert str(reading.rejections[0]).endswith(
        f"chosen[0].{field}: the turn only calls a tool; expected a text as content"
    )
    spoken = {**row, "chosen": [{**calls, "content": "Rain."}]}
    assert read(tmp_path / "rows.jsonl", trl.read, spoken)[1].counts["rows_with_unread_message_fields"] == 1
    empty = {**row, "chosen": answer("")}
    assert len(read(tmp_path / "rows.jsonl", trl.read, empty)[0]) == 1, "an explicit empty text is a response"


JSON_TEXTS = [
    json.dumps(said("Hi", "Hello!")),
    '[{"name": "Ann", "role": "cook"}]',
    '[{"id": 1, "role": "admin"}] Insert this row.',
    json.dumps(said("Hi", "Hello!"))[:-9],
]


@pytest.mark.parametrize("name", ["table", "trl"])
@pytest.mark.parametrize("text", JSON_TEXTS)
def test_a_text_that_is_json_stays_a_text_in_a_column_of_texts(tmp_path: Path, name: str, text: str) -> None:
    reader, row = READERS[name]
    kept, _ = read(tmp_path / "rows.jsonl", reader, row(text, "No."), {**row("Yes.", "No."), "prompt": text})
    assert (Message("assistant", text),) in (kept[0].response_a, kept[0].response_b)
    if text != JSON_TEXTS[0]:
        assert kept[1].prompt == (Message("user", text),)


@pytest.mark.parametrize("name", ["table", "trl", "rewardbench"])
def test_a_column_of_messages_as_json_texts_is_one_of_conversations(tmp_path: Path, name: str) -> None:
    reader, row = READERS[name]
    reply = (lambda text: text) if name == "rewardbench" else (lambda text: json.dumps(answer(text)))
    rows = [
        {**row(reply(f"{n}"), reply("No.")), "prompt": json.dumps(said(f"Why {n}?", "Which?", "This."))}
        for n in range(12)
    ]
    rows[11]["prompt"] = rows[11]["prompt"][:-4]
    kept, reading = read(tmp_path / "rows.jsonl", reader, *rows, strict=False)
    assert len(kept) == 11 and len(kept[0].prompt) == 3 and kept[0].response_a[0].content in ("0", "No.")
    assert "rows.jsonl:12: prompt: not valid JSON" in str(reading.rejections[0]), "the one that is cut off is refused"


@pytest.mark.parametrize("cell", ["", "  "])
def test_an_empty_cell_of_a_csv_is_a_missing_response(tmp_path: Path, cell: str) -> None:
    path = tmp_path / "votes.csv"
    path.write_text(f"prompt,response_a,response_b,winner\np,{cell},y,b\nq,x,y,b\n")
    reading = Intake(strict=False)
    assert len(list(table.read(path, reading, columns={}, winners={}))) == 1
    assert str(reading.rejections[0]).endswith("votes.csv:2: response_a: an empty cell")
    kept, _ = read(tmp_path / "rows.jsonl", READERS["table"][0], READERS["table"][1]("", "y"))
    assert kept[0].response_a == (Message("assistant", ""),), "JSON says so explicitly"
