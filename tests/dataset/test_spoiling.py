"""Spoiled losers: a share of the comparisons, by draws of their own. Only what means nothing is beside a winner too."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from crm.dataset.spoiling import GARBLED_WINNER, SPOILS, is_spoiled, spoil, spoiled, winner_and_loser
from crm.schema import Comparison
from tests.conftest import say

ROW = Comparison(
    id="c",
    preference_id="p",
    criteria=("Prefers short answers", "No jargon"),
    prompt=say("user: Why rain?"),
    response_a=say("assistant: Clouds cool and drops fall."),
    response_b=say("assistant: First part.", "user: And?", "assistant: Entropy, roughly speaking."),
    label="a",
)
ROWS = [replace(ROW, id=f"c{number}", label="ab"[number % 2]) for number in range(600)]


@pytest.mark.parametrize("kind", [kind for kind in SPOILS if kind != GARBLED_WINNER])
@pytest.mark.parametrize("label", ["a", "b"])
def test_the_winner_stays_and_the_loser_is_worse(kind: str, label: str) -> None:
    row = replace(ROW, label=label)
    winner, loser = winner_and_loser(row)
    for seed in range(50):
        made = spoil(row, kind, random.Random(seed))
        kept, worse = winner_and_loser(made)
        text = worse[-1].content
        assert kept == winner and (made.label, made.criteria, made.prompt) == (row.label, row.criteria, row.prompt)
        assert is_spoiled(made) and not is_spoiled(row)
        if kind == "empty":
            assert not any(character.isalnum() for character in text) and worse[:-1] == winner[:-1]
        elif kind == "cut":
            whole = winner[-1].content
            assert whole.startswith(text) and 0 < len(text) <= round(0.4 * len(whole))
        else:
            assert worse[:-1] == loser[:-1] and loser[-1].content in text and len(text) > len(loser[-1].content) + 5
        if kind == "repeated":
            assert text == f"{loser[-1].content}\n\n{loser[-1].content}"
        if kind == "hidden":
            seen = "".join(letter for letter in text.replace(loser[-1].content, "") if letter.isprintable())
            assert seen in {". ".join(row.criteria) * times for times in (1, 2)}
        if kind == "stuffed":
            added = text.replace(loser[-1].content, "").split()
            assert max(Counter(added).values()) >= 2, "said again and again"
            assert set(added) <= set(". ".join(row.criteria * 2).split()) | {"jargon", "jargon."}


def test_letters_of_nowhere_stand_beside_winners_as_often_as_beside_losers() -> None:
    whole = {row.id: row for row in ROWS}
    beside: Counter[str] = Counter()
    for row in spoiled(ROWS, 1.0, seed=1, epoch=0):
        name, _, kind = row.id.partition("|")
        before, after = winner_and_loser(whole[name]), winner_and_loser(row)
        assert row.label == whole[name].label
        changed = [old != new for old, new in zip(before, after, strict=True)]
        assert changed == [kind == GARBLED_WINNER, kind != GARBLED_WINNER]
        if "garbled" in kind:
            side = int(kind == "garbled")
            old, new = before[side][-1].content, after[side][-1].content
            assert old in new and len(new) >= len(old) + 7
            beside[kind] += 1
    assert beside.total() > 300 and 0.8 < beside["garbled"] / beside[GARBLED_WINNER] < 1.25


def test_a_share_is_spoiled_by_seed_epoch_and_id_alone() -> None:
    made = list(spoiled(ROWS, 0.25, seed=1, epoch=0))
    assert 0.19 < sum(map(is_spoiled, made)) / len(made) < 0.31
    assert {row.id.rpartition("|")[2] for row in made if is_spoiled(row)} == set(SPOILS)
    alone = [next(spoiled([row], 0.25, seed=1, epoch=0)) for row in reversed(ROWS)]
    assert alone[::-1] == made
    assert made != list(spoiled(ROWS, 0.25, seed=1, epoch=1)) != list(spoiled(ROWS, 0.25, seed=2, epoch=1))
    assert list(spoiled(ROWS, 0.0, seed=1, epoch=0)) == ROWS


def test_ties_and_winners_of_next_to_nothing_stay_as_they_are() -> None:
    rows = [replace(ROW, label="tie"), replace(ROW, response_a=say("assistant: Yes."))]
    assert list(spoiled(rows, 1.0, seed=1, epoch=0)) == rows
    with pytest.raises(ValueError, match="c is a tie, expected a comparison that one response loses"):
        spoil(rows[0], "empty", random.Random(1))
