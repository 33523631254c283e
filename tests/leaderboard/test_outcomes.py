"""Rankings from arrays are those of single matches, one after the other, to the last digits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crm.leaderboard import ratings
from crm.leaderboard.bank.bank import Bank, BankQuery
from crm.leaderboard.outcomes import BankNumbers, of_matches
from crm.leaderboard.ranking import Leaderboard
from crm.leaderboard.views import VIEWS
from crm.leaderboard.win_statistics import pair_p_values, paired_p
from crm.schema import Match, Message
from tests.leaderboard import match_by_match

EXACT = {"rel": 1e-11, "abs": 1e-12}


def matches_of(scores: Any, words: Any) -> list[Match]:
    """Column 0 is the baseline; NaN where the judge could not read. Topics in turns of three."""
    found = []
    for query, row in enumerate(scores):
        for place in range(1, len(row)):
            logit = float(row[place] - row[0])
            read = not np.isnan(logit)
            told = (float(row[place]), float(row[0])) if read else (None, None)
            lengths = int(words[query, place]), int(words[query, 0])
            topic, name = "ABC"[query % 3], f"m{place}"
            found.append(Match(f"q{query}", topic, name, "base", logit if read else None, *lengths, *told))
    return found


def drawn(seed: int, queries: int = 40, models: int = 7, unread: float = 0.05) -> list[Match]:
    generator = np.random.default_rng(seed)
    scores = generator.normal(0, 1.5, (queries, models)) + generator.normal(0, 0.5, models)
    scores[:, 2] = scores[:, 1]  # two models that are one
    scores[:, 3] = scores[:, 0] + 0.7  # one without any doubt
    scores[1:, 4:] = np.where(generator.random((queries - 1, models - 4)) < unread, np.nan, scores[1:, 4:])
    return matches_of(scores, generator.integers(1, 400, scores.shape))


@pytest.mark.parametrize("seed", range(4))
def test_every_number_is_that_of_single_matches(seed: int) -> None:
    matches = drawn(seed)
    board = Leaderboard(matches)
    pairs = match_by_match.better_pairs(matches)
    table = match_by_match.rates(matches)
    assert 0 < len(pairs) < 21
    for row in board.rows:
        assert row.win_rate == pytest.approx(np.mean(list(table[row.model].values())), **EXACT)
        assert row.mean_words == pytest.approx(match_by_match.mean_words(matches, row.model), **EXACT)
        others = set(table) - {row.model}
        assert set(row.tied_with) == {name for name in others if not {(name, row.model), (row.model, name)} & pairs}
        assert row.rank_low == 1 + sum((name, row.model) in pairs for name in others)
        if row.model == "base":
            assert row.interval is None and row.topics == {}
            continue
        assert row.unread == sum(m.preference_logit is None for m in matches if m.candidate == row.model)
        expected = match_by_match.by_topic(matches, row.model)
        assert list(row.topics) == list(expected)
        close(row.interval, match_by_match.interval(list(table[row.model].values())))
        for topic, interval in expected.items():
            close(row.topics[topic], interval)


def close(found: Any, expected: Any) -> None:
    for name in ("mean", "standard_error", "low", "high", "n", "clusters"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), **EXACT), name


@pytest.mark.parametrize("seed", range(3))
def test_fitted_views_are_those_of_single_matches(seed: int) -> None:
    matches = drawn(seed)
    rates, beta = ratings.length_controlled(of_matches(matches))
    expected, expected_beta = match_by_match.length_controlled(matches)
    assert rates == pytest.approx(expected, abs=2e-6) and beta == pytest.approx(expected_beta, abs=2e-5)
    outcomes = of_matches(matches)
    won, met = ratings._all_pairs(np.roll(outcomes.scores, 1, axis=1))
    by_hand = match_by_match.meetings(matches, ["base", *outcomes.models[:-1]])
    assert won == pytest.approx(by_hand[0], **EXACT) and (met == by_hand[1]).all()


def test_newtons_method_ends_where_the_minimiser_does() -> None:
    """Also where a model always wins, which only the limits stop, and where no lengths differ."""
    generator = np.random.default_rng(2)
    target, length = generator.random((30, 4)), np.tanh(generator.normal(0, 1, (30, 4)))
    read = generator.random((30, 4)) < 0.9
    for wins, lengths in ((target, length), (target, 0 * length), (np.where([1, 0, 0, 0], 1.0, target), length)):
        theta, beta = ratings._fit_lengths(np.where(read, wins, 0.0), np.where(read, lengths, 0.0), read)
        other, other_beta = ratings._fit_lengths_in_limits(np.where(read, wins, 0.0), lengths * read, read, 1e-7)
        assert 1 / (1 + np.exp(-theta)) == pytest.approx(1 / (1 + np.exp(-other)), abs=1e-6)
        assert beta == pytest.approx(other_beta, abs=1e-4)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 30), st.sampled_from([0.0, 1e-14, 1e-9, 1e-5, 1.0]))
def test_p_values_by_covariance_are_those_of_differences(seed: int, queries: int, apart: float) -> None:
    """Also of models that hardly differ, where the variance of a difference is lost in rounding."""
    generator = np.random.default_rng(seed)
    wins = generator.random((queries, 1)) + apart * generator.normal(0.3, 1, (queries, 6))
    left, right = np.triu_indices(6, k=1)
    expected = paired_p(wins[:, left] - wins[:, right])
    assert pair_p_values(wins, left, right) == pytest.approx(expected, rel=1e-8, abs=1e-13)


def bank_of(scores: Any, words: Any) -> Bank:
    """Models in the order of their names; the last is the baseline."""
    names = [f"m{place}" for place in range(1, scores.shape[1])]
    rows = tuple(BankQuery(f"q{n}", (Message("user", f"q {n}"),), "ABC"[n % 3]) for n in range(len(scores)))
    columns = {"base": 0, **{name: place for place, name in enumerate(names, start=1)}}
    texts = {name: {f"q{n}": "w " * words[n, at] for n in range(len(scores))} for name, at in columns.items()}
    return Bank("drawn", "base", rows, texts)


def test_scores_of_a_bank_are_ranked_as_its_matches() -> None:
    generator = np.random.default_rng(3)
    scores = generator.normal(0, 1.5, (30, 5))
    scores[3, 2], scores[7] = np.nan, np.nan  # a long response; a query on which nobody is read
    scores[9, 0] = np.nan  # the baseline's alone: nobody can be compared there
    words = generator.integers(1, 60, scores.shape)
    bank = bank_of(scores, words)
    board = Leaderboard(BankNumbers(bank).outcomes(scores, bank))
    expected = Leaderboard(matches_of(scores, words))
    assert board.left_out == expected.left_out == 2 and board.unread == expected.unread == {"m2": 1}
    for view in VIEWS:
        assert board.frame(view).equals(expected.frame(view)), view
    assert board.rows == expected.rows
    assert board.matches == expected.matches
    assert sorted(board.matches, key=lambda m: (m.query_id, m.candidate)) == sorted(
        (m for m in matches_of(scores, words) if m.query_id not in ("q7", "q9")),
        key=lambda m: (m.query_id, m.candidate),
    )


def test_another_baseline_and_part_need_no_other_scores() -> None:
    generator = np.random.default_rng(4)
    scores = generator.normal(0, 1.5, (30, 4))
    bank = bank_of(scores, words := generator.integers(1, 60, scores.shape))
    numbers = BankNumbers(bank)
    part = replace(bank.select(["A"]), baseline="m2")
    part = replace(part, responses={name: part.responses[name] for name in ("m1", "m2", "base")})
    board = Leaderboard(numbers.outcomes(scores, part))
    wanted = list(range(0, 30, 3))
    other = matches_of(scores[wanted][:, [2, 0, 1]], words[wanted][:, [2, 0, 1]])
    names = {"m1": "base", "m2": "m1", "base": "m2"}
    renamed = [
        replace(m, query_id=f"q{wanted[int(m.query_id[1:])]}", topic="A", candidate=names[m.candidate], baseline="m2")
        for m in other
    ]
    assert board.frame().equals(Leaderboard(renamed).frame())
    with pytest.raises(ValueError, match=r"bank\.baseline='nobody': not in bank"):
        numbers.outcomes(scores, type("Part", (), {"baseline": "nobody"})())


def test_no_records_are_made_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.random.default_rng(5).normal(0, 1, (12, 3))
    bank = bank_of(scores, np.ones(scores.shape, dtype=int))
    made = []
    init = Match.__init__
    monkeypatch.setattr(Match, "__init__", lambda self, *given: (made.append(1), init(self, *given))[1])
    board = Leaderboard(BankNumbers(bank).outcomes(scores, bank))
    for view in VIEWS:
        board.frame(view)
    assert not made
    assert len(board.matches) == 24 == len(made)
