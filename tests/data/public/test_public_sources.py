"""Every public set on a made-up folder of its shape, checked by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crm.data.catalogue import PUBLIC
from crm.data.public.pairs import wordings_of
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


def test_rmb_reads_the_subjective_tasks(read: Read) -> None:
    counts = {"dropped_identical_responses": 1}
    rows = read("rmb", counts, **{"Pairwise_set/Helpfulness/Code/Bad.json": [3]})
    assert len(rows) == 7
    assert {(row.author_a, row.author_b)[row.winner == "b"] for row in rows} == {"good"}
    assert all(winner(row) == "good says" and len(row.prompt) == 3 for row in rows)
    assert "Role Playing/Some Scenario" in {row.topic for row in rows}


def test_pandalm_takes_the_majority(read: Read) -> None:
    counts = {"unanimous": 1, "three_way_splits": 1, "ties": 2}
    rows = read("pandalm", counts)
    assert [row.winner for row in rows] == ["a", "b", "tie", "tie"]
    assert [row.query for row in rows] == ["Do\n\nthis", "Do", "this", "Do\n\nthis"]
    assert rows[3].response_b[0].content == "False"
    assert (rows[0].author_a, rows[0].author_b) == ("bloom-7b", "opt-7b")


def test_llmbar_keeps_the_numbers_of_reversed_instructions(read: Read) -> None:
    rows = {row.id: row for row in read("llmbar")}
    for number in (1, 2):
        normal, negation = (rows[f"llmbar-{subset}-{number}"] for subset in ("Normal", "Negation"))
        assert (normal.response_a, normal.response_b) == (negation.response_a, negation.response_b)
        assert (winner(normal), winner(negation)) == ("one", "two")
        assert set(spoken_for(normal)["one"]) == set(spoken_for(negation)["two"]) == {"instruction following"}
    assert Counter(row.source for row in rows.values()) == {"llmbar/human": 10, "llmbar/construction": 10}


def test_wordings_are_many_and_all_different() -> None:
    names = ("summeval", "dsp", "concise_verbose", "llmbar")
    banks = [wordings_of(name) for name in names]
    unseen = [wordings_of(f"{name}_unseen") for name in ("dsp", "concise_verbose")]
    texts = [text.casefold() for bank in [*banks, *unseen] for wordings in bank.values() for text in wordings]
    assert len(set(texts)) == len(texts)
    assert all(6 <= len(wordings) <= 14 for bank in banks for wordings in bank.values())
