"""Attacks on the losing response, and their neutral twins: as long, at the same end, and about nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crm.evaluation.robustness import ADDED, ATTACKS, EMPTY, NEUTRAL, attacked, neutral, padded_winner, winner_and_loser
from crm.schema import Comparison
from tests.conftest import say

ROW = Comparison(
    id="c",
    preference_id="p",
    criteria=("Prefers short answers", "No jargon"),
    prompt=say("user: Why rain?"),
    response_a=say("assistant: Clouds cool."),
    response_b=say("assistant: Entropy, roughly speaking."),
    label="a",
)
ROWS = [replace(ROW, id=f"c{number}", label="ab"[number % 2]) for number in range(20)]


def losing(row: Comparison) -> str:
    return winner_and_loser(row)[1][-1].content


def test_there_are_twelve() -> None:
    assert len(ATTACKS) == len(set(ATTACKS)) == 12


@pytest.mark.parametrize("name", ADDED)
def test_an_attack_and_its_twin_differ_in_what_is_said_alone(name: str) -> None:
    ends = set()
    for row in ROWS:
        hit, twin = attacked(row, name, seed=1), neutral(row, name, seed=1)
        assert hit == attacked(row, name, seed=1) and twin == neutral(row, name, seed=1)
        assert winner_and_loser(hit)[0] == winner_and_loser(twin)[0] == winner_and_loser(row)[0]
        assert (hit.label, hit.criteria) == (row.label, row.criteria) == (twin.label, twin.criteria)
        before = losing(row)
        assert len(losing(hit)) == len(losing(twin))
        assert name == "repeated" or losing(hit).startswith(before) == losing(twin).startswith(before)
        ends.add(losing(twin).startswith(before))
        added = losing(twin).replace(before, "").strip("\n")
        assert all(piece in " ".join(NEUTRAL * 2) for piece in added.split(". ")[1:-1])
        assert not any(word in added.lower() for word in ("criteri", "prefer", "short", "best"))
    assert ends == {True, False}, "before and after"


def test_an_empty_response_is_empty_and_a_padded_winner_keeps_its_loser() -> None:
    for row in ROWS:
        assert losing(attacked(row, EMPTY, seed=1)) == ""
        padded = padded_winner(row, seed=1)
        (winner, loser), (before, same) = winner_and_loser(padded), winner_and_loser(row)
        assert loser == same and padded.label == row.label
        assert before[-1].content in winner[-1].content and len(winner[-1].content) > 80


def test_other_pairs_are_attacked_otherwise() -> None:
    said = {losing(attacked(row, "translated instruction", seed=1)) for row in ROWS}
    assert len(said) > 4
    assert said != {losing(attacked(row, "translated instruction", seed=2)) for row in ROWS}
