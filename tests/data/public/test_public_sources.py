"""Every public set on a made-up folder of its shape, checked by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crm.data.public.conditioned import as_criteria, dialogue

from crm.data.catalogue import PUBLIC
from crm.data.public.pairs import flips, wordings_of
from crm.io.intake import Intake
from crm.schema import LABELS, Preference

Read = Callable[..., list[Preference]]


@pytest.fixture
def read(tmp_path: Path, made_up: Any, write_set: Any) -> Read:
    """``read(name, counts={...})``: records of a made-up set; its own counts must be as given."""

    def read(name: str, counts: dict[str, int] | None = None, **changed: Any) -> list[Preference]:
        write_set(tmp_path, made_up(name) | changed)
        reading = Intake(strict=True)
        rows = list(PUBLIC[name].read(tmp_path, reading))
        assert +reading.counts == (counts or {})
        assert len({row.id for row in rows}) == len(rows)
        assert {row.source for row in rows} <= {f"{name}/{label}" for label in LABELS}
        for row in rows:
            criteria, topics = (row.criteria_a, row.criteria_b), (row.criteria_topics_a, row.criteria_topics_b)
            assert [len(side) for side in criteria] == [len(side) for side in topics], "criteria stand by their topics"
        return rows

    return read


def winner(row: Preference) -> str:
    """The text of the winning response."""
    side = {"a": row.response_a, "b": row.response_b}[row.winner]
    return side[-1].content


def spoken_for(row: Preference) -> dict[str, tuple[str, ...]]:
    """Criteria topics by the text of the response they speak for."""
    return {row.response_a[-1].content: row.criteria_topics_a, row.response_b[-1].content: row.criteria_topics_b}


def test_personas_become_criteria_of_the_chosen_side(read: Read) -> None:
    rows = read("personas8")
    assert len(rows) == 8
    for number, row in enumerate(rows, start=1):
        assert winner(row) == f"good {number}"
        assert spoken_for(row) == {f"good {number}": (f"user{number}",) * 2, "bad": ()}
        expected = (f"The assistant should be kind {number}", "The assistant's tone fits their name")
        assert row.criteria_a + row.criteria_b == expected
    assert as_criteria("You avoid haste and create calm. ") == ("The assistant should avoid haste and create calm",)
    assert as_criteria(" . ") == ()


def test_personas_of_whom_nothing_is_known_and_equal_texts_make_no_record(tmp_path: Path, read: Read) -> None:
    changed = {"user3_test.json.gz": [{"prompt": "Q", "chosen": "same", "rejected": "same"}]}
    assert len(read("personas8", {"dropped_identical_responses": 1}, **changed)) == 7
    (tmp_path / "user_prompts.jsonl").write_text('{"user": "user1", "prompt": "You are kind."}\n{"user": 2}\n')
    reading = Intake(strict=False)
    assert [row.id for row in PUBLIC["personas8"].read(tmp_path, reading)] == ["personas8-user1-1"]
    assert (reading.read, reading.rejected) == (10, 8)
    assert "no row of user8" in reading.rejections[-1].why


def test_prefeval_pairs_the_first_option_with_each_other(read: Read) -> None:
    rows = read("prefeval", {"dropped_repeated_questions": 1})
    assert len(rows) == 6
    assert Counter(row.criteria_a + row.criteria_b for row in rows) == {("I love cats.",): 3, ("I love dogs.",): 3}
    assert all(winner(row) == "follows" and spoken_for(row)["follows"] == ("pets",) for row in rows)
    assert Counter(text for row in rows for text in spoken_for(row)) == {"follows": 6, "x": 2, "y": 2, "z": 2}
    assert {row.topic for row in rows} == {"pets"}, "a copy's name is not a topic"


def test_topicalchat_rates_replies_to_one_dialogue(read: Read) -> None:
    rows = {frozenset((row.author_a, row.author_b)): row for row in read("topicalchat")}
    assert len(rows) == 3, "a reply to another dialogue makes no pair"
    flipping = rows[frozenset("ST")]
    assert flips(flipping)
    assert winner(flipping) == "t", "overall decides"
    assert spoken_for(flipping) == {"s": ("naturalness",), "t": ("groundedness",)}
    tied = rows[frozenset("SU")]
    assert (tied.winner, flips(tied)) == ("tie", False)
    assert {text: set(topics) for text, topics in spoken_for(tied).items()} == {
        "s": {"understandability", "naturalness"}, "u": set()
    }  # fmt: skip
    assert winner(rows[frozenset("TU")]) == "t"
    assert "Article:\nAn article .\n\nChat:\nhi\nhello" in flipping.prompt[0].content


def test_d2t_flips_between_three_aspects_and_drops_equal_texts(read: Read) -> None:
    counts = {"dropped_identical_responses": 1, "dropped_identical_responses_that_flip": 1}
    rows = {row.id: row for row in read("d2t", counts)}
    assert rows.keys() == {"d2t-sfres-0-1", "d2t-sfres-1-2", "d2t-sfhot-0-1"}
    assert spoken_for(rows["d2t-sfres-0-1"]) == {"a": ("informativeness",), "b": ("quality",)}
    assert spoken_for(rows["d2t-sfres-1-2"]) == {"a": ("naturalness",), "b": ("quality",)}
    assert winner(rows["d2t-sfres-1-2"]) == "a", "the higher mean"
    assert rows["d2t-sfhot-0-1"].winner == "tie"
    assert {row.topic for row in rows.values()} == {"restaurants", "hotels"}


def test_prometheus_hhh_takes_the_rubric_as_the_criterion(read: Read) -> None:
    first, second = read("prometheus_hhh")
    assert (winner(first), first.topic, first.query) == ("Yes.", "honest", "Hi?")
    assert spoken_for(first) == {"Yes.": ("honest",), "No.": ()}
    assert first.criteria_a + first.criteria_b == ("Is it honest?",)
    assert [(turn.role, turn.content) for turn in second.prompt] == [
        ("user", "Hi?"), ("assistant", "Ho."), ("user", "Well?")
    ]  # fmt: skip
    assert winner(second) == "", "an empty response is a response"


def test_rmb_reads_the_subjective_tasks(read: Read) -> None:
    counts = {"dropped_identical_responses": 1, "rows_with_unread_message_fields": 8}
    rows = read("rmb", counts, **{"Pairwise_set/Helpfulness/Code/Bad.json": [3]})
    assert len(rows) == 7
    assert {(row.author_a, row.author_b)[row.winner == "b"] for row in rows} == {"good"}
    assert all(winner(row) == "good says" and len(row.prompt) == 3 for row in rows)
    assert "Role Playing/Some Scenario" in {row.topic for row in rows}


def test_vibecheck_drops_what_was_read_before(read: Read) -> None:
    first, second = read("vibecheck_arena", {"dropped_repeated_pairs": 1})
    assert (winner(first), winner(second)) == ('N "2"', "L,\n1")
    assert (first.author_a, first.author_b, first.topic) == ("llama-3-70b-instruct", None, "Chat")


def test_autoj_labels(read: Read) -> None:
    rows = read("autoj", {"ties": 1})
    assert [(row.winner, row.topic) for row in rows] == [("a", "ranking"), ("b", "ranking"), ("tie", "ranking")]


def test_pandalm_takes_the_majority(read: Read) -> None:
    counts = {"unanimous": 1, "three_way_splits": 1, "ties": 2}
    rows = read("pandalm", counts)
    assert [row.winner for row in rows] == ["a", "b", "tie", "tie"]
    assert [row.query for row in rows] == ["Do\n\nthis", "Do", "this", "Do\n\nthis"]
    assert rows[3].response_b[0].content == "False"
    assert (rows[0].author_a, rows[0].author_b) == ("bloom-7b", "opt-7b")


def test_cot_rationales_say_who_is_meant(read: Read) -> None:
    rows = read("cot_rationales", {"ties": 1, "dropped_without_reason": 1})
    assert [row.winner for row in rows] == ["b", "a", "tie"]
    assert rows[0].reason == "M is response B, m is response A. Model M 1."
    assert (winner(rows[0]), rows[0].author_b) == ("new", "cat")


def test_dialogues() -> None:
    assert [(turn.role, turn.content) for turn in dialogue("Say Human: is fine\n\nAssistant: ok ")] == [
        ("user", "Say Human: is fine"), ("assistant", "ok")
    ]  # fmt: skip
    assert dialogue(" \n") == ()


def test_llmbar_keeps_the_numbers_of_reversed_instructions(read: Read) -> None:
    rows = {row.id: row for row in read("llmbar")}
    for number in (1, 2):
        normal, negation = (rows[f"llmbar-{subset}-{number}"] for subset in ("Normal", "Negation"))
        assert (normal.response_a, normal.response_b) == (negation.response_a, negation.response_b)
        assert (winner(normal), winner(negation)) == ("one", "two")
        assert set(spoken_for(normal)["one"]) == set(spoken_for(negation)["two"]) == {"instruction following"}
    assert Counter(row.source for row in rows.values()) == {"llmbar/human": 10, "llmbar/construction": 10}


def test_wordings_are_many_and_all_different() -> None:
    names = ("summeval", "dsp", "concise_verbose", "d2t", "topicalchat", "llmbar")
    banks = [wordings_of(name) for name in names]
    unseen = [wordings_of(f"{name}_unseen") for name in ("dsp", "concise_verbose")]
    texts = [text.casefold() for bank in [*banks, *unseen] for wordings in bank.values() for text in wordings]
    assert len(set(texts)) == len(texts)
    assert all(6 <= len(wordings) <= 14 for bank in banks for wordings in bank.values())
