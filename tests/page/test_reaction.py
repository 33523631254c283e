"""Words that a judge reacts to, and words that it does not: against random letters, at a known rate of mistakes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from crm.leaderboard.bank.simulated import simulate_bank
from crm.page.reaction import NONSENSE, Reaction, nonsense, size
from tests.page.counting import KNOWN, counting_ranker


@pytest.fixture(scope="module")
def reaction(tmp_path_factory: pytest.TempPathFactory) -> Reaction:
    bank = simulate_bank(seed=1, queries_per_topic=4).bank
    return counting_ranker(bank, tmp_path_factory.mktemp("index")).scorer.reaction


def test_what_the_judge_knows_is_understood(reaction: Reaction) -> None:
    lines = [pattern.split("|")[0] for pattern, (trait, _) in KNOWN.items() if trait not in (2, 6)]
    assert reaction.not_understood(lines) == ()  # headings and liveliness are in no answer of this bank


def test_nonsense_of_other_letters_is_rarely_understood(reaction: Reaction) -> None:
    """One line in ten is as far from the others as nine in ten of those that were asked for comparison."""
    rng = np.random.default_rng(9)
    lines = [" ".join("".join(rng.choice(list("bcdfghjklmnpqrstvwxz"), 6)) for _ in range(2)) for _ in range(100)]
    assert len(reaction.not_understood(lines)) >= 75


def test_what_is_prepared_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reaction = counting_ranker(simulate_bank(seed=1, queries_per_topic=2).bank, tmp_path).scorer.reaction
    reaction.prepare(["one", "two words", "so many words as this one"])
    read: list[str] = []
    scores = reaction.indexed.scores
    monkeypatch.setattr(reaction.indexed, "scores", lambda lines: (read.extend(lines), scores(lines))[1])
    assert reaction.not_understood(["short", "wants lists", "as long as it can be"]) == ()
    assert read == ["short", "wants lists", "as long as it can be"]


def test_each_number_of_words_has_its_own_nonsense(reaction: Reaction) -> None:
    for words in (1, 3):
        lines = nonsense(words)
        assert len(set(lines)) == NONSENSE and {len(line.split()) for line in lines} == {words}
        assert nonsense(words) == lines
    assert size(np.array([3.0, np.nan, 4.0])) == pytest.approx(np.sqrt(12.5))
