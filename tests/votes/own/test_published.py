"""The authors' two file formats and our own records: what is accepted, what each fault is called, what is counted."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from crm.dataset.load import load_splits
from crm.schema import MAX_CRITERIA, Message, Preference, prompt_key
from crm.votes.own.published import EVAL_FIELDS, parse_train
from crm.votes.row_reader import At
from crm.votes.splits import Splits, check_disjoint

USER = {"role": "user", "content": "Write a poem"}


def said(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def eval_row(**changes: Any) -> dict[str, Any]:
    row = {
        "idx": 0,
        "prompt": "Write a poem",
        "model_a": [USER, said("Roses")],
        "model_b": [USER, said("Violets")],
        "criteria": ["likes roses", "short"],
        "preference": "model_a",
    }
    return {**row, **changes}


def train_row(**changes: Any) -> dict[str, Any]:
    row = {
        "model_a": [USER, said("Roses")],
        "model_b": [USER, said("Violets")],
        "human_winner": "model_b",
        "a_criteria": ["likes roses"],
        "b_criteria": ["likes violets", "likes blue"],
        "a_broad_criteria_topic": ["Plants"],
        "b_broad_criteria_topic": ["Plants", "Colours"],
    }
    return {**row, **changes}


def own_row(**changes: Any) -> dict[str, Any]:
    row = {"id": "1", "prompt": [USER], "response_a": [said("x")], "response_b": [said("y")], "winner": "a"}
    return {**row, **changes}


def load(
    name: str, path: Path, *, strict: bool = True, seed: int = 0, validation: float = 0.1, test: float = 0.1
) -> Splits:
    return load_splits(
        name,
        root="",
        path=str(path),
        train=0,
        validation=0,
        suite=0,
        max_words=0,
        validation_fraction=validation,
        test_fraction=test,
        strict=strict,
        seed=seed,
    )


def write(tmp_path: Path, *rows: Any) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_an_evaluation_row_becomes_the_record_written_by_hand(tmp_path: Path) -> None:
    expected = Preference(
        id="eval-0",
        prompt=(Message("user", "Write a poem"),),
        response_a=(Message("assistant", "Roses"),),
        response_b=(Message("assistant", "Violets"),),
        winner="a",
        criteria_a=("likes roses", "short"),
        source="eval_rows",
    )
    splits = load("eval_rows", write(tmp_path, eval_row()))
    assert splits.suites == {"D": [expected]}
    assert not splits.train
    assert not splits.validation
    for spelled in ("['likes roses', \"short\"]", '["likes roses", "short"]', [" likes roses", "short "]):
        again = load("eval_rows", write(tmp_path, eval_row(criteria=spelled)))
        assert again.suites["D"] == [expected]
        assert again.counts["criteria_given_as_text"] == isinstance(spelled, str)
    replies_only = eval_row(model_a=[said("Roses")], model_b=[said("Violets")])
    assert load("eval_rows", write(tmp_path, replies_only)).suites["D"] == [expected]


def test_the_criteria_stand_on_the_preferred_side_and_a_tie_stays_a_tie(tmp_path: Path) -> None:
    rows = [eval_row(idx=n, preference=side) for n, side in enumerate(("model_a", "model_b", "tie"))]
    splits = load("eval_rows", write(tmp_path, *rows))
    a, b, tie = splits.suites["D"]
    assert (a.winner, bool(a.criteria_a), bool(a.criteria_b)) == ("a", True, False)
    assert (b.winner, bool(b.criteria_a), bool(b.criteria_b)) == ("b", False, True)
    assert tie.winner == "tie"
    assert tie.criteria_a == tie.criteria_b == ("likes roses", "short")
    assert splits.counts["ties"] == 1


def test_a_training_row_keeps_both_sides_and_its_topics(tmp_path: Path) -> None:
    row = load("train_rows", write(tmp_path, train_row()), validation=0, test=0).train[0]
    assert (row.winner, row.criteria_a, row.criteria_b) == ("b", ("likes roses",), ("likes violets", "likes blue"))
    assert (row.criteria_topics_a, row.criteria_topics_b) == (("Plants",), ("Plants", "Colours"))
    assert row.prompt == (Message("user", "Write a poem"),)
    assert row.response_b == (Message("assistant", "Violets"),)


def test_the_shared_leading_turns_are_the_prompt(tmp_path: Path) -> None:
    more = {"role": "user", "content": "Longer"}
    shared = train_row(model_a=[USER, said("Hm"), more, said("A1")], model_b=[USER, said("Hm"), more, said("B1")])
    apart = train_row(model_a=[USER, said("A1"), more, said("A2")], model_b=[USER, said("B1"), more, said("B2")])
    same = train_row(model_a=[USER, said("Hm")], model_b=[USER, said("Hm")])
    parsed = [parse_train(row, At(Path(), Path(), 1, Counter())) for row in (shared, apart, same)]
    assert [len(row.prompt) for row in parsed] == [3, 1, 1]
    assert [turn.content for turn in parsed[1].response_b] == ["B1", "Longer", "B2"]
    assert parsed[2].response_a == parsed[2].response_b == (Message("assistant", "Hm"),)


LONG = "word " * 200_000
ACCEPTED = {
    "an empty response": {"model_a": [USER, said("")]},
    "a response of 1 M characters": {"model_b": [USER, said(LONG)]},
    "U+2028 in a criterion": {"criteria": ["line\u2028separator"]},
    "a field more": {"judge": "x"},
}
REFUSED = {
    "an unknown winner": ({"preference": "model_c"}, "preference: 'model_c' is not one of model_a, model_b, tie"),
    "a winner in another case": ({"preference": "Model_A"}, "preference: 'Model_A' is not one of"),
    "both bad": ({"preference": "tie (bothbad)"}, "preference: 'tie (bothbad)' is not one of"),
    "a winner list": ({"preference": ["model_a"]}, "preference: ['model_a'] is not one of"),
    "no winner": ({"preference": None}, "preference: null"),
    "criteria as one string": ({"criteria": "likes roses"}, "criteria: a string, not a list: 'likes roses'"),
    "criteria as code": ({"criteria": "[print('x')]"}, "criteria: a string that is no list of strings"),
    "criteria as many brackets": ({"criteria": "[" * 5_000}, "criteria: a string that is no list of strings"),
    "a surrogate inside text": ({"criteria": "['\\ud800']"}, "criteria: lone surrogate at position 0"),
    "a NUL inside text": ({"criteria": "['\\x00']"}, "criteria: NUL character at position 0"),
    "a huge text": ({"criteria": "[" + "'x'," * 40_000 + "]"}, "criteria: a list written as 160,002 characters"),
    "no criteria": ({"criteria": []}, "criteria: empty"),
    "a blank criterion": ({"criteria": [""]}, "criteria[0]: expected a non-blank string, got ''"),
    "1,000 criteria": ({"criteria": ["x"] * 1_000}, f"criteria: 1000 items, at most {MAX_CRITERIA} are allowed"),
    "nested criteria": ({"criteria": [["x"]]}, "criteria[0]: expected a non-blank string, got ['x']"),
    "criteria as an object": ({"criteria": {"x": 1}}, "criteria: expected a list of strings, got {'x': 1}"),
    "no messages": ({"model_a": []}, "model_a: expected a non-empty list of messages, got []"),
    "messages as text": ({"model_a": "[{'role': 'user'}]"}, "model_a: expected a non-empty list of messages"),
    "an unknown role": ({"model_a": [{"role": "human", "content": "x"}]}, "model_a[0].role: 'human' is not one of"),
    "content that is no text": ({"model_b": [USER, said(3)]}, "model_b[1].content: expected text, got int"),  # type: ignore[arg-type]
    "nothing shared": ({"model_b": [said("Violets")]}, "model_b: shares no leading turns"),
    "no reply": ({"model_b": [USER]}, "model_b: shares no leading turns"),
    "another prompt": ({"prompt": "Write a novel"}, "prompt: differs from the first user turn"),
    "idx of the wrong type": ({"idx": [0]}, "idx: expected a number or a name, got list"),
}


@pytest.mark.parametrize("case", ACCEPTED)
def test_odd_rows_that_are_legal(tmp_path: Path, case: str) -> None:
    splits = load("eval_rows", write(tmp_path, eval_row(**ACCEPTED[case])))
    assert splits.counts["suite_D"] == 1
    assert splits.counts["rows_with_unknown_fields"] == ("judge" in ACCEPTED[case])


@pytest.mark.parametrize("case", REFUSED)
def test_bad_rows_are_refused_with_file_line_field_and_reason(tmp_path: Path, case: str) -> None:
    changes, why = REFUSED[case]
    path = write(tmp_path, eval_row(idx="good"), eval_row(**changes), eval_row(idx="also good"))
    splits = load("eval_rows", path, strict=False)
    assert (splits.counts["read"], splits.counts["suite_D"], splits.counts["rejected"]) == (3, 2, 1)
    assert str(splits.rejected[0]).startswith(f"{path}:2: {why}")
    with pytest.raises(ValueError, match=r"rows\.jsonl:2: ") as caught:
        load("eval_rows", path)
    assert str(caught.value) == str(splits.rejected[0])


@pytest.mark.parametrize("name", EVAL_FIELDS)
def test_every_field_of_an_evaluation_row_is_needed(name: str, tmp_path: Path) -> None:
    row = {key: value for key, value in eval_row().items() if key != name}
    rejected = load("eval_rows", write(tmp_path, row, eval_row(idx=9)), strict=False).rejected
    assert (rejected[0].field, rejected[0].why) == (name, "missing")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"human_winner": "model_d"}, "human_winner: 'model_d' is not one of"),
        ({"a_criteria": "x"}, "a_criteria: a string, not a list"),
        ({"b_criteria": [""]}, "b_criteria[0]: expected a non-blank string"),
        ({"a_criteria": [], "b_criteria": []}, "a_criteria: empty, and b_criteria too"),
        ({"a_broad_criteria_topic": [3]}, "a_broad_criteria_topic[0]: expected a non-blank string"),
    ],
)
def test_bad_training_rows(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    splits = load("train_rows", write(tmp_path, train_row(), train_row(**changes)), validation=0, test=0, strict=False)
    assert len(splits.train) == len(splits.rejected) == 1
    assert f":2: {why}" in str(splits.rejected[0])


def test_a_training_row_may_lack_criteria_on_one_side_and_name_one_topic(tmp_path: Path) -> None:
    row = train_row(
        a_criteria=[], b_criteria="['x']", a_broad_criteria_topic="Plants", b_broad_criteria_topic="['Blue']"
    )
    splits = load("train_rows", write(tmp_path, row), validation=0, test=0)
    record = splits.train[0]
    assert (record.criteria_a, record.criteria_b) == ((), ("x",))
    assert (record.criteria_topics_a, record.criteria_topics_b) == (("Plants",), ("Blue",))
    assert splits.counts["criteria_given_as_text"] == 1


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"id": 3}, "id: expected text, got int"),
        ({"id": " "}, "id: blank"),
        ({"criteria_a": None}, "criteria_a: null"),
        ({"winner": "model_a"}, "winner: 'model_a' is not one of a, b, tie"),
        ({"colour": "red"}, "colour: unknown field"),
        ({"topic": 3}, "topic: expected text, got int"),
        ({"id": "0"}, "id: '0' is already on line 1"),
        ({"response_a": []}, "response_a: expected a non-empty list of messages"),
    ],
)
def test_bad_records_of_our_own(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    path = write(tmp_path, own_row(id="0", topic=None, criteria_a=["x"]), own_row(**changes))
    splits = load("records", path, strict=False, validation=0, test=0)
    assert len(splits.train) == 1
    assert f":2: {why}" in str(splits.rejected[0])


def test_our_own_records_are_split_by_prompt(tmp_path: Path) -> None:
    words = [f"topic{n} {'abcdefghij'[n % 10] * (n + 3)} question" for n in range(60)]
    ask = [{"role": "user", "content": text} for text in words]
    rows = [own_row(id=f"{n}-{copy}", prompt=[ask[n]], criteria_a=["x"]) for n in range(60) for copy in range(2)]
    splits = load("records", write(tmp_path, *rows), seed=3, validation=0.2, test=0.2)
    parts = [splits.train, splits.validation, splits.suites["D"]]
    keys = [{prompt_key(row.prompt) for row in part} for part in parts]
    assert all(len(part) == 2 * len(own) > 0 for part, own in zip(parts, keys, strict=True))
    assert sum(map(len, parts)) == splits.counts["read"] == 120
    assert len(set.union(*keys)) == 60


def test_records_without_any_criteria_are_refused_with_what_to_do(tmp_path: Path) -> None:
    rows = [own_row(id=str(n), prompt=[{"role": "user", "content": f"{'abcdefghijkl'[n] * 9}"}]) for n in range(12)]
    with pytest.raises(ValueError, match=r"data=records: no record has criteria.*prepare\.py data=records"):
        load("records", write(tmp_path, *rows), test=0.3)
    rows[0]["criteria_b"] = ["one is enough"]
    load("records", write(tmp_path, *rows), test=0.3)


def test_an_id_in_two_files_of_a_folder_is_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(own_row(id="7", criteria_a=["x"])) + "\n")
    with pytest.raises(ValueError, match="id: '7' is also in another file"):
        load("records", tmp_path)


def test_a_prompt_in_two_parts_is_refused_with_the_count() -> None:
    say = (Message("assistant", "x"),)
    rows = [Preference(str(n), (Message("user", text),), say, say, "a") for n, text in enumerate(("P", " p ", "q"))]
    check_disjoint(rows[:2], rows[2:], {})
    with pytest.raises(ValueError, match="1 prompts of train are also in validation"):
        Splits(rows[:1], rows[1:], {}, {})
    with pytest.raises(ValueError, match="1 prompts of validation are also in suites"):
        Splits([], rows[:1], {"D": rows[2:], "F": rows[1:2]}, {})
