"""Every public set on a made-up folder of its shape, checked by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crm.data.public.pairs import wordings_of
from crm.schema import Preference
from tests.made_files import read_records, spoken_for, winner

Read = Callable[..., list[Preference]]


@pytest.fixture
def read(tmp_path: Path, made_up: Any, write_set: Any) -> Read:
    """``read(name, counts={...})``: records of a made-up set; its own counts must be as given."""

    def read(name: str, counts: dict[str, int] | None = None, **changed: Any) -> list[Preference]:
        write_set(tmp_path, made_up(name) | changed)
        return read_records(name, tmp_path, counts)

    return read


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
