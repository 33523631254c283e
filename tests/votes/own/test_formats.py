"""TRL's columns, RewardBench, RewardBench 2 and Personalized RewardBench: records by hand, refusals, counts."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet as pq

from crm.io.intake import Intake
from crm.schema import Message, Preference
from crm.votes.own import trl
from crm.votes.public import personalized_rewardbench, rewardbench
from crm.votes.sampling import fraction

SKY = {"role": "user", "content": "What colour is the sky?"}
BLUE = {"role": "assistant", "content": "It is blue."}
GREEN = {"role": "assistant", "content": "It is green."}
MORE = {"role": "user", "content": "Sure?"}
ORACLE = partial(personalized_rewardbench.read, oracle_rubric=True)


def read(tmp_path: Path, source: Any, *rows: dict[str, Any], parquet: bool = False) -> tuple[list[Preference], Intake]:
    reading = Intake(strict=False)
    path = tmp_path / ("rows.parquet" if parquet else "rows.jsonl")
    if parquet:
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    records = list(getattr(source, "read", source)(path, reading))
    assert reading.read == reading.kept + reading.rejected == len(rows)
    return records, reading


def refusal(tmp_path: Path, source: Any, row: dict[str, Any]) -> str:
    records, reading = read(tmp_path, source, row)
    assert records == []
    return str(reading.rejections[0]).split(":1: ", 1)[1]


def sides(record: Preference) -> tuple[str, str]:
    """The chosen and the rejected response, as one text each."""
    a, b = (" | ".join(turn.content for turn in part) for part in (record.response_a, record.response_b))
    return (a, b) if record.winner == "a" else (b, a)


TRL_FORMS = {
    "text": {"prompt": SKY["content"], "chosen": "It is blue.", "rejected": "It is green."},
    "messages": {"prompt": [SKY], "chosen": [BLUE], "rejected": [GREEN]},
    "a prompt of text, replies of messages": {"prompt": SKY["content"], "chosen": [BLUE], "rejected": [GREEN]},
    "a prompt of text, whole conversations": {
        "prompt": SKY["content"],
        "chosen": [SKY, BLUE],
        "rejected": [SKY, GREEN],
    },
    "an implicit prompt": {"chosen": [SKY, BLUE], "rejected": [SKY, GREEN]},
    "a null prompt": {"prompt": None, "chosen": [SKY, BLUE], "rejected": [SKY, GREEN]},
    "messages as JSON text": {
        "prompt": json.dumps([SKY]),
        "chosen": json.dumps([BLUE]),
        "rejected": json.dumps([GREEN]),
    },
    "with scores": {"prompt": [SKY], "chosen": [BLUE], "rejected": [GREEN], "score_chosen": 9.0, "margin": 2.5},
}


@pytest.mark.parametrize("parquet", [False, True])
@pytest.mark.parametrize("form", TRL_FORMS)
def test_every_form_of_trl_is_the_same_record(tmp_path: Path, form: str, parquet: bool) -> None:
    records, reading = read(tmp_path, trl, TRL_FORMS[form], parquet=parquet)
    record = records[0]
    assert record.prompt == (Message("user", "What colour is the sky?"),)
    assert sides(record) == ("It is blue.", "It is green.")
    assert {turn.role for turn in (*record.response_a, *record.response_b)} == {"assistant"}
    assert record.id == read(tmp_path, trl, TRL_FORMS["text"])[0][0].id
    assert (record.source, record.criteria_a, record.criteria_b) == ("trl", (), ())
    assert reading.counts["rows_with_unread_fields"] == (form == "with scores")
    assert reading.counts["rows_with_implicit_prompt"] == (form in ("an implicit prompt", "a null prompt"))


def test_leading_turns_that_both_share_are_the_implicit_prompt(tmp_path: Path) -> None:
    row = {"chosen": [SKY, GREEN, MORE, BLUE], "rejected": [SKY, GREEN, MORE, GREEN], "id": 7}
    record = read(tmp_path, trl, row)[0][0]
    assert (record.id, len(record.prompt), sides(record)) == ("trl-7", 3, ("It is blue.", "It is green."))
    apart = read(tmp_path, trl, {"chosen": [SKY, BLUE, MORE, BLUE], "rejected": [SKY, GREEN]})[0][0]
    assert (len(apart.prompt), sides(apart)) == (1, ("It is blue. | Sure? | It is blue.", "It is green."))


def test_the_side_is_drawn_by_the_id_and_both_sides_occur(tmp_path: Path) -> None:
    rows = [{**TRL_FORMS["text"], "id": str(n)} for n in range(200)]
    records = read(tmp_path, trl, *rows)[0]
    assert 70 < Counter(record.winner for record in records)["a"] < 130
    for record in records:
        assert record.winner == ("a" if fraction(0, record.id, "side") < 0.5 else "b")
        assert sides(record) == ("It is blue.", "It is green.")
    assert read(tmp_path, trl, *rows[::-1])[0] == records[::-1]


def test_an_exact_copy_without_an_id_is_another_vote_and_with_one_a_duplicate(tmp_path: Path) -> None:
    row = TRL_FORMS["text"]
    records, _ = read(tmp_path, trl, row, {**row, "chosen": "Blue"}, row)
    assert [record.id for record in records[::2]] == [records[0].id, f"{records[0].id}-2"]
    records, reading = read(tmp_path, trl, {**row, "id": 1}, {**row, "id": 1})
    assert len(records) == 1 and "is already on line 1" in str(reading.rejections[0])


@pytest.mark.parametrize("parquet", [False, True])
@pytest.mark.parametrize("form", ["text", "messages", "an implicit prompt"])
@pytest.mark.parametrize(
    ("cell", "criteria"),
    [(["Short", " Kind "], ("Short", "Kind")), ("Short; Kind", ("Short", "Kind")), ("Short", ("Short",)), ("", ())],
)
def test_criteria_of_trl_rows_speak_for_the_chosen_side(
    tmp_path: Path, form: str, cell: Any, criteria: tuple[str, ...], parquet: bool
) -> None:
    row = {**TRL_FORMS[form], "criteria": cell, "criteria_rejected": ["Blunt"] if criteria else None}
    records, reading = read(tmp_path, trl, row, parquet=parquet)
    of_winner = [records[0].criteria_a, records[0].criteria_b][:: 1 if records[0].winner == "a" else -1]
    assert of_winner == [criteria, ("Blunt",) if criteria else ()]
    assert sides(records[0]) == ("It is blue.", "It is green.")
    assert reading.counts["rows_with_criteria"] == bool(criteria)
    assert reading.counts["rows_with_unread_fields"] == 0


def test_rows_without_criteria_keep_their_ids_and_two_users_of_one_pair_have_two(tmp_path: Path) -> None:
    row = TRL_FORMS["text"]
    without, short, detailed = read(tmp_path, trl, row, *({**row, "criteria": [one]} for one in ("Short", "Detailed")))[
        0
    ]
    assert without.id == "trl-d09476b76c7712b7"
    assert len({without.id, short.id, detailed.id}) == 3


TRL_REFUSED = {
    "criteria that are no list": ({**TRL_FORMS["text"], "criteria": {"a": 1}}, "criteria: expected a list of strings"),
    "a blank criterion": ({**TRL_FORMS["text"], "criteria": ["x", " "]}, "criteria[1]: expected a non-blank string"),
    "criteria cut short": ({**TRL_FORMS["text"], "criteria": '["x"'}, "criteria: a string that is no list of strings"),
    "a number among them": (
        {**TRL_FORMS["text"], "criteria_rejected": [7]},
        "criteria_rejected[0]: expected a non-blank string, got 7",
    ),
    "plain texts without a prompt": (
        {"chosen": "The sky is blue.", "rejected": "The sky is green."},
        "prompt: missing, and chosen or rejected is no whole conversation",
    ),
    "replies without a prompt": ({"chosen": [BLUE], "rejected": [GREEN]}, "prompt: missing, and chosen or rejected"),
    "nothing shared": ({"chosen": [SKY, BLUE], "rejected": [MORE, BLUE]}, "rejected: shares no leading turns with cho"),
    "another prompt": (
        {"prompt": "Why?", "chosen": [SKY, BLUE], "rejected": [SKY, GREEN]},
        "prompt: is no user turn of the conversations",
    ),
    "a prompt twice": (
        {"prompt": [SKY], "chosen": [SKY, BLUE], "rejected": [SKY, GREEN]},
        "chosen: starts with the user's turn; leave prompt out",
    ),
    "no rejected": ({"prompt": "x", "chosen": "y"}, "rejected: missing"),
    "images": ({**TRL_FORMS["messages"], "images": ["cat.png"]}, "images: the row comes with images"),
    "parts of a message": (
        {"prompt": [{"role": "user", "content": [{"type": "text", "text": "x"}]}], "chosen": "y", "rejected": "z"},
        "prompt[0].content: expected text, got list",
    ),
    "a tool's turn": (
        {"prompt": [SKY], "chosen": [{"role": "tool", "content": "x"}], "rejected": [BLUE]},
        "chosen[0].role: 'tool' is not one of",
    ),
    "a blank prompt": ({"prompt": " ", "chosen": "y", "rejected": "z"}, "prompt: blank"),
    "messages as Python prints them": (
        {"prompt": str([SKY]), "chosen": "y", "rejected": "z"},
        "prompt: not valid JSON: Expecting property name enclosed in double quotes at position 2; a list in a text",
    ),
    "a number": ({"prompt": 3, "chosen": "y", "rejected": "z"}, "prompt: expected text or a list of messages, got int"),
    "an id that is none": (
        {**TRL_FORMS["text"], "id": 0.5},
        "id: expected a whole number or a non-blank text, got 0.5",
    ),
}


@pytest.mark.parametrize("case", TRL_REFUSED)
def test_trl_rows_that_cannot_be_read(tmp_path: Path, case: str) -> None:
    row, why = TRL_REFUSED[case]
    assert refusal(tmp_path, trl, row).startswith(why)


@pytest.mark.parametrize("text", ['[{"name": "x"}]', "[{", "[1, 2]", '["role"]', "{'role': 'user'}", ""])
def test_other_json_and_brackets_are_plain_text(tmp_path: Path, text: str) -> None:
    record = read(tmp_path, trl, {"prompt": "Give me JSON", "chosen": text, "rejected": "no"})[0][0]
    assert sides(record) == (text, "no")


BENCH = {
    "prompt": "How many?",
    "chosen": "Two",
    "chosen_model": "gpt-x",
    "rejected": "Three",
    "rejected_model": "",
    "subset": "llmbar-natural",
    "id": 30,
}
BENCH_2 = {
    "id": "tied:7",
    "prompt": "Name a colour",
    "chosen": ["Red", "Blue"],
    "rejected": ["Cat", "Dog", "Cow"],
    "num_correct": 2,
    "num_rejected": 3,
    "total_completions": 5,
    "models": ["a", "b"],
    "subset": "Ties",
}


@pytest.mark.parametrize("parquet", [False, True])
def test_a_row_of_rewardbench(tmp_path: Path, parquet: bool) -> None:
    records, reading = read(tmp_path, rewardbench, BENCH, parquet=parquet)
    record = records[0]
    assert (record.id, record.topic, sides(record)) == ("rewardbench-30", "llmbar-natural", ("Two", "Three"))
    authors = (record.author_a, record.author_b)
    assert authors == (("gpt-x", None) if record.winner == "a" else (None, "gpt-x"))
    assert (reading.counts["pairs"], reading.counts["pairs_not_made"]) == (1, 0)


@pytest.mark.parametrize("parquet", [False, True])
def test_rewardbench_2_pairs_every_rejected_response_once(tmp_path: Path, parquet: bool) -> None:
    best_of_four = {**BENCH_2, "id": "3", "chosen": ["Red"], "num_correct": 1, "subset": "Focus"}
    records, reading = read(tmp_path, rewardbench, BENCH_2, best_of_four, parquet=parquet)
    assert [record.id for record in records[:3]] == [f"rewardbench-tied:7-{n}" for n in range(3)]
    assert [sides(record)[1] for record in records] == ["Cat", "Dog", "Cow"] * 2
    assert {sides(record)[0] for record in records[:3]} <= {"Red", "Blue"}
    assert [sides(record)[0] for record in records[3:]] == ["Red"] * 3
    assert [record.topic for record in records] == ["Ties"] * 3 + ["Focus"] * 3
    assert (reading.read, reading.counts["pairs"], reading.counts["pairs_not_made"]) == (2, 6, 3)


def test_the_chosen_responses_are_drawn_evenly(tmp_path: Path) -> None:
    records = read(tmp_path, rewardbench, *({**BENCH_2, "id": str(n)} for n in range(100)))[0]
    assert 100 < Counter(sides(record)[0] for record in records)["Red"] < 200


def test_lists_as_json_text_are_the_same_records(tmp_path: Path) -> None:
    as_text = {**BENCH_2, "chosen": json.dumps(BENCH_2["chosen"]), "rejected": json.dumps(BENCH_2["rejected"])}
    records, reading = read(tmp_path, rewardbench, as_text)
    assert records == read(tmp_path, rewardbench, BENCH_2)[0]
    assert reading.counts["pairs_not_made"] == 3


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({**BENCH_2, "chosen": []}, "chosen: an empty list; expected at least one response"),
        ({**BENCH_2, "rejected": "x"}, "rejected: not valid JSON"),
        ({**BENCH_2, "rejected": ["x", 3]}, "rejected[1]: expected text, got int"),
        ({**BENCH, "rejected": ["x"]}, "rejected: expected text, got list"),
        ({**BENCH, "subset": 3}, "subset: expected text, got int"),
        ({**BENCH, "prompt": None}, "prompt: null"),
    ],
)
def test_bench_rows_that_cannot_be_read(tmp_path: Path, row: dict[str, Any], why: str) -> None:
    assert refusal(tmp_path, rewardbench, row).startswith(why)


PERSONAL = {
    "id": "p1",
    "question": "Which novel next?",
    "profile": [{"id": "o1", "category": "Art", "text": "KVCache"}, {"id": "o2", "category": "Art", "text": "Before"}],
    "rubric_aspects": [
        {"aspect": "Short books", "reason": "SECRET reason", "evidence": "SECRET evidence"},
        {"aspect": " No horror ", "reason": "SECRET", "evidence": "SECRET"},
    ],
    "narrative": "SECRET narrative",
    "category": "Art_and_Entertainment",
    "chosen": "A novella",
    "rejected": "A thick horror novel",
}


@pytest.mark.parametrize("parquet", [False, True])
def test_the_rubric_is_withheld_unless_asked_for(tmp_path: Path, parquet: bool) -> None:
    records, reading = read(tmp_path, personalized_rewardbench, PERSONAL, parquet=parquet)
    record = records[0]
    assert (record.id, record.topic, record.query) == ("personalized-p1", "Art_and_Entertainment", "Which novel next?")
    assert sides(record) == ("A novella", "A thick horror novel")
    assert (record.criteria_a, record.criteria_b) == ((), ())
    assert not any(word in repr(record) for word in ("SECRET", "Short books", "No horror", "KVCache"))
    assert (reading.counts["profile_texts_left_out"], reading.counts["rows_with_rubric_withheld"]) == (2, 1)

    oracle, reading = read(tmp_path, ORACLE, PERSONAL, parquet=parquet)
    told = ("Short books", "No horror")
    assert (oracle[0].criteria_a, oracle[0].criteria_b) == ((told, ()) if oracle[0].winner == "a" else ((), told))
    assert "SECRET" not in repr(oracle[0])
    assert reading.counts["rows_with_rubric_withheld"] == 0


def test_the_oracle_needs_a_rubric(tmp_path: Path) -> None:
    plain = {name: PERSONAL[name] for name in ("id", "question", "chosen", "rejected")}
    assert len(read(tmp_path, personalized_rewardbench, plain)[0]) == 1
    for value, why in ((None, "rubric_aspects: expected a list, got NoneType"), ([], "rubric_aspects: an empty list")):
        assert refusal(tmp_path, ORACLE, {**plain, "rubric_aspects": value}).startswith(why)
    assert refusal(tmp_path, ORACLE, {**plain, "rubric_aspects": ["x"]}).startswith("rubric_aspects[0]: expected an")
    assert refusal(tmp_path, personalized_rewardbench, {**plain, "profile": 3}).startswith("profile: expected a list")
    assert refusal(tmp_path, personalized_rewardbench, {**plain, "chosen": ["x"]}).startswith("chosen: expected text")
