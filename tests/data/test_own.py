"""Formats of one's own votes: each becomes the record written by hand, and each fault is named."""

import json
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from crm.data import own, table
from crm.data.config import DataConfig
from crm.data.load import load_data
from crm.io.rows import Intake
from crm.schema import Message, Preference
from tests.made_files import chat, write_rows

Row = dict[str, Any]


def answer(text: Any) -> list[Row]:
    return chat("", text)[1:]


def read(tmp_path: Path, reader: Any, *rows: Row, parquet: bool = False) -> tuple[list[Preference], Intake]:
    reading = Intake(strict=False)
    path = write_rows(tmp_path / ("rows.parquet" if parquet else "rows.jsonl"), list(rows))
    found = list(reader(path, reading))
    assert reading.read == reading.kept + reading.rejected == len(rows)
    return found, reading


def sides(record: Preference) -> tuple[str, str]:
    """The better and the other response, as one text each."""
    a, b = (" | ".join(turn.content for turn in part) for part in (record.response_a, record.response_b))
    return (b, a) if record.winner == "b" else (a, b)


BARE = partial(table.read, columns={}, winners={})
ARENA = {"model_a": "gpt-x", "model_b": "claude-y", "winner": "model_a"}
FLAGS = {"winner_model_a": 1, "winner_model_b": 0, "winner_tie": 0}
TRAIN = {
    **{"human_winner": "model_a", "a_criteria": ["short"], "b_criteria": ["long"]},
    **{"a_broad_criteria_topic": ["Length"], "b_broad_criteria_topic": "Length"},
}
READERS: dict[str, tuple[Any, Any]] = {
    "table": (BARE, lambda a, b: {"prompt": "Why?", "response_a": a, "response_b": b, "winner": "a"}),
    "pairs": (BARE, lambda a, b: {"prompt": "Why?", "chosen": a, "rejected": b}),
    "trl": (table.trl, lambda a, b: {"prompt": "Why?", "chosen": a, "rejected": b}),
    "arena": (own.arena, lambda a, b: {**ARENA, "conversation_a": chat("Why?", a), "conversation_b": chat("Why?", b)}),
    "train_rows": (own.train_rows, lambda a, b: {**TRAIN, "model_a": chat("Why?", a), "model_b": chat("Why?", b)}),
}
WITH_IDS: dict[str, tuple[Any, Any]] = {
    "arena 55k": (
        own.arena,
        lambda a, b: {
            **{"id": a + b, "model_a": "gpt-x", "model_b": "claude-y", "prompt": '["Why?"]', **FLAGS},
            **{"response_a": json.dumps([a]), "response_b": json.dumps([b])},
        },
    ),
    "records": (
        own.records,
        lambda a, b: {
            **{"id": a + b, "prompt": chat("Why?"), "winner": "a"},
            **{"response_a": answer(a), "response_b": answer(b)},
        },
    ),
    "eval_rows": (
        own.eval_rows,
        lambda a, b: {
            **{"idx": a + b, "prompt": "Why?", "criteria": ["short"], "preference": "model_a"},
            **{"model_a": chat("Why?", a), "model_b": chat("Why?", b)},
        },
    ),
}
EVERY = READERS | WITH_IDS


@pytest.mark.parametrize("name", EVERY)
def test_every_reader_gives_the_same_vote_and_leaves_equal_responses_out(tmp_path: Path, name: str) -> None:
    reader, row = EVERY[name]
    found, reading = read(tmp_path, reader, row("Yes.", "No."), row("Yes.", "Yes."), row("Yes.", "yes."))
    assert [sides(record) for record in found] == [("Yes.", "No."), ("Yes.", "yes.")]
    assert all(record.prompt == (Message("user", "Why?"),) for record in found)
    assert reading.counts["dropped_identical_responses"] == 1 and reading.kept == 3


@pytest.mark.parametrize("name", READERS)
def test_equal_rows_without_ids_are_several_votes_in_one_file_or_in_several(tmp_path: Path, name: str) -> None:
    reader, row = READERS[name]
    votes = [row("Yes.", "No."), row("No.", "Yes."), row("Yes.", "No."), row("Yes.", "No.")]
    one = [record.id for record in read(tmp_path, reader, *votes)[0]]
    assert len(set(one)) == 4 and one[2:] == [f"{one[0]}-2", f"{one[0]}-3"]
    for number, vote in enumerate(votes):
        write_rows(tmp_path / f"shards/{number}.jsonl", [vote])
    assert [record.id for record in reader(tmp_path / "shards", Intake(strict=True))] == one


@pytest.mark.parametrize("name", ["records", "trl", "table", "train_rows"])
def test_a_response_ends_with_the_assistant(tmp_path: Path, name: str) -> None:
    reader, row = EVERY[name]
    unanswered = row("Yes.", "No.")
    for field in {"response_a", "chosen", "model_a"} & unanswered.keys():
        given = unanswered[field]
        unanswered[field] = [*(given if isinstance(given, list) else answer(given)), *chat("And then?")]
    kept, reading = read(tmp_path, reader, unanswered, row("Yes.", "Nope."))
    assert len(kept) == 1 and "a response ends with the assistant's turn, got the user's" in str(reading.rejections[0])


TRL_FORMS: dict[str, Row] = {
    "text": {"prompt": "Why?", "chosen": "So.", "rejected": "Because."},
    "messages": {"prompt": chat("Why?"), "chosen": answer("So."), "rejected": answer("Because.")},
    "whole conversations": {"prompt": "Why?", "chosen": chat("Why?", "So."), "rejected": chat("Why?", "Because.")},
    "whole beside messages": {
        "prompt": chat("Why?"),
        "chosen": chat("Why?", "So."),
        "rejected": chat("Why?", "Because."),
    },
    "an implicit prompt": {"prompt": None, "chosen": chat("Why?", "So."), "rejected": chat("Why?", "Because.")},
    "JSON text": {"prompt": json.dumps(chat("Why?")), "chosen": json.dumps(answer("So.")), "rejected": "Because."},
    "Python text": {"prompt": str(chat("Why?")), "chosen": str(answer("So.")), "rejected": "Because."},
    "scores too": {"prompt": "Why?", "chosen": "So.", "rejected": "Because.", "margin": 2.5, "score_chosen": 9.0},
}


@pytest.mark.parametrize("parquet", [False, True])
@pytest.mark.parametrize("form", TRL_FORMS)
def test_every_form_of_trl_is_the_same_record(tmp_path: Path, form: str, parquet: bool) -> None:
    (record,), _ = read(tmp_path, table.trl, TRL_FORMS[form], parquet=parquet)
    assert [record] == read(tmp_path, table.trl, TRL_FORMS["text"])[0]
    assert (record.prompt, sides(record)) == ((Message("user", "Why?"),), ("So.", "Because."))


def test_shared_turns_are_the_prompt_and_the_side_is_drawn_by_the_id(tmp_path: Path) -> None:
    row = {"chosen": chat("Hi", "Ho", "More", "A"), "rejected": chat("Hi", "Ho", "More", "B")}
    found = read(tmp_path, table.trl, *({**row, "id": n} for n in range(200)))[0]
    assert {(record.query, len(record.prompt), sides(record)) for record in found} == {("Hi", 3, ("A", "B"))}
    assert 70 < Counter(record.winner for record in found)["a"] < 130 and found[7].id == "trl-7"
    apart = {"chosen": chat("Hi", "A1", "More", "A2"), "rejected": chat("Hi", "B")}
    assert sides(read(tmp_path, table.trl, apart)[0][0]) == ("A1 | More | A2", "B")


def test_criteria_speak_for_the_chosen_side(tmp_path: Path) -> None:
    row = {**TRL_FORMS["text"], "criteria": "Short; Kind", "criteria_rejected": ["Blunt"]}
    (record, plain), _ = read(tmp_path, table.trl, row, TRL_FORMS["text"])
    of_winner = [record.criteria_a, record.criteria_b][:: 1 if record.winner == "a" else -1]
    assert of_winner == [("Short", "Kind"), ("Blunt",)]
    assert plain.id.startswith("trl-") and record.id not in plain.id + "-2"


def test_the_marks_of_hh_rlhf_are_turns(tmp_path: Path) -> None:
    start = "\n\nHuman: Hi.\n\nAssistant: Hello!\n\nHuman: Why is the sky blue?\n\nAssistant:"
    better, worse = " It scatters\n\nblue light.", " No Human: knows."
    whole = {"chosen": start + better, "rejected": start + worse}
    split = {"prompt": start, "chosen": better.strip(), "rejected": worse.strip()}
    records = [read(tmp_path, table.trl, row)[0][0] for row in (whole, split)]
    for record in records:
        assert record.prompt == tuple(
            Message(*turn) for turn in (("user", "Hi."), ("assistant", "Hello!"), ("user", "Why is the sky blue?"))
        )
        assert sides(record) == ("It scatters\n\nblue light.", "No Human: knows.")
    dialogue = "Human: Hi\n\nAssistant: Ho "
    for rejected in ("b", "Human: Hi\n\nAssistant: Hey", "Human: Hello\n\nAssistant: Ho"):
        (plain,), _ = read(tmp_path, table.trl, {"prompt": "Human: or not?", "chosen": dialogue, "rejected": rejected})
        assert plain.prompt == (Message("user", "Human: or not?"),)
        assert sides(plain) == (dialogue, rejected), "a model wrote it"


def test_columns_beside_conversations_are_read_or_counted(tmp_path: Path) -> None:
    more = {
        "reason": "Brief.",
        "topic": "Art",
        "author_chosen": "gpt-x",
        "system": "Be kind.",
        "margin": 2,
        "tag": None,
    }
    (record,), reading = read(tmp_path, table.trl, TRL_FORMS["an implicit prompt"] | more)
    assert (record.reason, record.topic) == ("Brief.", "Art")
    assert (record.author_a, record.author_b) == (("gpt-x", None) if record.winner == "a" else (None, "gpt-x"))
    assert record.prompt == (Message("system", "Be kind."), Message("user", "Why?"))
    assert {name for name in reading.counts if "unread" in name} == {"unread_column_margin", "unread_column_tag"}


def test_votes_of_several_judges_on_the_turns_of_one_question(tmp_path: Path) -> None:
    """They are no duplicates, and what follows the judged reply is cut."""
    row = {**ARENA, "question_id": 81, "turn": 1, "judge": "one"}
    row |= {f"conversation_{side}": chat("Why?", f"{side}1", "And?", f"{side}2") for side in "ab"}
    votes = [row, row | {"judge": "two", "turn": "2"}, row | {"judge": "two", "model_a": "gpt-z", "turn": None}]
    found, reading = read(tmp_path, own.arena, *votes, votes[0], votes[1])
    assert [sides(record)[0] for record in found] == ["a1", "a1 | And? | a2", "a1 | And? | a2"]
    assert found[0].id == "arena-81" and reading.counts["cut_to_judged_turn"] == 2
    assert [rejection.line for rejection in reading.rejections] == [4, 5], "equal rows are"


BAD: dict[str, tuple[str, Row, str]] = {
    "trl, no prompt": ("trl", {"prompt": None}, "prompt: missing, and chosen or rejected is no whole conversation"),
    "trl, nothing shared": (
        "trl",
        {"prompt": None, "chosen": chat("Q", "A"), "rejected": chat("R", "A")},
        "rejected: shares no leading turns with chosen",
    ),
    "trl, another prompt": (
        "trl",
        {"prompt": chat("R"), "chosen": chat("Q", "A"), "rejected": chat("Q", "B")},
        "prompt: is no user turn of the conversations in chosen and rejected; leave it out where these are whole",
    ),
    "eval_rows, winner": ("eval_rows", {"preference": "Model_A"}, "preference: 'Model_A' is not one of a, model_a"),
    "arena, winner": ("arena", {"winner": "model_c"}, "winner: 'model_c' is not one of a, model_a, response_a"),
    "trl, images": ("trl", {"images": ["cat.png"]}, "images: the row has images"),
    "trl, a tool's turn": (
        "trl",
        {"chosen": [{"role": "tool", "content": "x"}]},
        "chosen[0].role: 'tool' is not one of system, user",
    ),
    "eval_rows, criteria": ("eval_rows", {"criteria": "likes roses"}, "criteria: a string, not a list: 'likes roses'"),
    "eval_rows, prompt": ("eval_rows", {"prompt": "Write"}, "prompt: is no user turn of the conversations"),
    "records, winner": ("records", {"winner": "model_a"}, "winner: 'model_a' is not one of a, b, tie"),
    "records, more": ("records", {"colour": "red"}, "colour: unknown field, expected some of id, prompt"),
    "arena, image": (
        "arena",
        {"conversation_a": chat([{"type": "image", "image": "cat.png"}], "A cat")},
        "conversation_a[0].content: is not one text; only conversations of text",
    ),
    "arena, two winners": ("arena 55k", {"winner_tie": 1}, "winner_tie: 2 of winner_model_a, winner_model_b"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_rows_are_named_and_those_around_them_are_read(tmp_path: Path, case: str) -> None:
    name, changes, why = BAD[case]
    reader, row = EVERY[name]
    found, reading = read(tmp_path, reader, row("1", "2"), row("3", "4") | changes, row("5", "6"))
    assert [sides(record) for record in found] == [("1", "2"), ("5", "6")]
    assert str(reading.rejections[0]).startswith(f"{tmp_path}/rows.jsonl:2: {why}")


def test_an_evaluation_row_by_hand(tmp_path: Path) -> None:
    row = WITH_IDS["eval_rows"][1]("Roses", "Violets") | {"idx": 0, "criteria": ["likes roses", "short"]}
    expected = Preference(
        id="eval-0",
        prompt=(Message("user", "Why?"),),
        response_a=(Message("assistant", "Roses"),),
        response_b=(Message("assistant", "Violets"),),
        winner="a",
        criteria_a=("likes roses", "short"),
        source="eval_rows",
    )
    forms = [row, row | {"criteria": "['likes roses', \"short\"]"}, row | {"model_a": answer("Roses")}]
    forms[2]["model_b"] = answer("Violets")
    for form in forms:
        assert read(tmp_path, own.eval_rows, form | {"judge": "x"})[0] == [expected]
    (tie,), reading = read(tmp_path, own.eval_rows, row | {"preference": "tie"})
    assert tie.criteria_a == tie.criteria_b == ("likes roses", "short") and reading.counts["ties"] == 1


def test_a_prepared_dataset_is_read_from_a_hub_too_and_its_responses_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        Preference.from_dict(WITH_IDS["records"][1](f"{word}, it is", "No, no") | {"criteria_a": ["short"]})
        for word in ("Yes", "No")
    ]
    for number, part in enumerate(("train", "validation", "D", "T", "C")):
        asked = [replace(row, prompt=(Message("user", f"{number}?"),)) for row in rows]
        own.write_preferences(tmp_path / "splits" / f"{part}.parquet", asked)
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, **_: str(tmp_path))
    monkeypatch.setattr("huggingface_hub.HfApi.repo_info", lambda *_, **__: None)
    for path in (str(tmp_path), "hf://me/votes"):
        splits = load_data(DataConfig(name="file", root="", path=path, max_words=1))
        assert sides(splits.train[0]) == ("Yes, ...", "No, ...")
        assert len(splits.rows) == 5 and splits.counts["dropped_same_when_cut"] == 5


def test_null_is_the_default_of_an_optional_field_of_a_record(tmp_path: Path) -> None:
    row = WITH_IDS["records"][1]("Yes.", "No.")
    nulls = dict.fromkeys(("criteria_a", "criteria_topics_b", "topic", "author_a", "source", "reason"))
    assert read(tmp_path, own.records, row | nulls)[0] == read(tmp_path, own.records, row)[0]
    assert "winner" in str(read(tmp_path, own.records, row | {"winner": None})[1].rejections[0])


def test_a_row_of_the_arena_by_hand(tmp_path: Path) -> None:
    row = WITH_IDS["arena 55k"][1]("", "") | {
        **{"id": 30192, "prompt": '["Is it \\"moral\\"?", "OK,\\nshorter"]'},
        **{"response_a": '["Yes; no.", null]', "response_b": '["No", "Perhaps \\ud83d\\ude00"]'},
    }
    (record,), reading = read(tmp_path, own.arena, row)
    assert record == Preference(
        id="arena-30192",
        prompt=(Message("user", 'Is it "moral"?'),),
        response_a=tuple(Message(**turn) for turn in chat("", "Yes; no.", "OK,\nshorter", "")[1:]),
        response_b=tuple(Message(**turn) for turn in chat("", "No", "OK,\nshorter", "Perhaps \U0001f600")[1:]),
        winner="a",
        author_a="gpt-x",
        author_b="claude-y",
        source="arena/human",
    )
    assert reading.counts["rows_with_null_turns"] == 1


def test_winners_and_parts_of_messages_of_the_arena(tmp_path: Path) -> None:
    row = READERS["arena"][1]("Hi A", "Hi B")
    part = chat([{"type": "text", "text": "Why?", "image": None}], [{"type": "text", "text": "Hi A"}])
    rows = [
        row | {"question_id": winner, "winner": winner, "conversation_a": part if winner == "tie" else json.dumps(part)}
        for winner in ("model_a", "model_b", "tie", "tie (bothbad)")
    ]
    unanswered = {**row, "conversation_b": chat("Why?", "No.", "And then?")}
    found, reading = read(tmp_path, own.arena, *rows, unanswered)
    assert [record.winner for record in found] == ["a", "b", "tie", "tie"]
    assert found[2].id == "arena-tie" and sides(found[2]) == ("Hi A", "Hi B")
    assert (reading.counts["ties"], reading.counts["dropped_unanswered"]) == (2, 1)
