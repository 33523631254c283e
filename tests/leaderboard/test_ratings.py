"""Fitted views against closed forms, evalica, data simulated with known strengths and length effects, raw win rates."""

from __future__ import annotations

import math
from dataclasses import replace

import evalica
import numpy as np
import pytest
from scipy import special

from crm.leaderboard.ranking import Leaderboard
from crm.leaderboard.ratings import LIMIT, bradley_terry, elo, length_controlled
from crm.schema import Match


def match(query: int, candidate: str, logit: float, words: tuple[int, int] = (10, 20)) -> Match:
    return Match(f"q{query}", "Arts", candidate, "base", logit, *words)


def test_two_models_give_the_logit_of_the_win_rate() -> None:
    matches = [match(0, "x", 2.0), match(1, "x", -1.0), match(2, "x", 0.5)]
    rate = Leaderboard(matches).win_rates()["x"]
    strengths, pairs = bradley_terry(matches)
    assert pairs == "baseline"
    assert strengths == pytest.approx({"base": 0.0, "x": math.log(rate / (1 - rate))}, abs=1e-5)


def test_against_the_baseline_only_every_model_is_its_own_logit() -> None:
    logits = np.random.default_rng(0).normal(0, 2, (30, 3))
    matches = [match(q, name, float(logits[q, i])) for q in range(30) for i, name in enumerate("xyz")]
    strengths, _ = bradley_terry(matches)
    for name, rate in Leaderboard(matches).win_rates().items():
        assert strengths[name] == pytest.approx(math.log(rate / (1 - rate)), abs=1e-5)


def scored(scores: np.ndarray) -> list[Match]:
    """Column 0 is the baseline's score; the others are candidates."""
    return [
        replace(match(q, f"m{i}", float(row[i] - row[0])), score_candidate=float(row[i]), score_baseline=float(row[0]))
        for q, row in enumerate(scores)
        for i in range(1, len(row))
    ]


def test_scores_bring_all_pairs_and_constant_scores_are_recovered() -> None:
    truth = np.array([0.0, 1.0, -2.0, 0.3])
    shifts = np.random.default_rng(1).normal(0, 5, (20, 1))  # a hard query moves every score alike
    strengths, pairs = bradley_terry(scored(truth + shifts))
    assert pairs == "all"
    assert [strengths[name] for name in ("base", "m1", "m2", "m3")] == pytest.approx(truth, abs=1e-4)


def test_all_pairs_satisfy_the_likelihood_equations() -> None:
    scores = np.random.default_rng(2).normal(0, 2, (50, 4)) + np.array([0, 0.5, 1, -1])
    fitted, _ = bradley_terry(scored(scores))
    theta = np.array([fitted[name] for name in ("base", "m1", "m2", "m3")])
    expected = special.expit(theta[:, None] - theta[None, :]).sum(axis=1)
    observed = special.expit(scores[:, :, None] - scores[:, None, :]).mean(axis=0).sum(axis=1)
    assert expected == pytest.approx(observed, abs=1e-5)


def evalicas(scores: np.ndarray, pairs: list[tuple[int, int]]) -> dict[str, list[object]]:
    """The same meetings for evalica: each one is won by both sides, weighted by their chances."""
    names = ["base", *(f"m{i}" for i in range(1, scores.shape[1]))]
    given: dict[str, list[object]] = {"xs": [], "ys": [], "winners": [], "weights": []}
    for row in scores:
        for one, two in pairs:
            chance = float(special.expit(row[one] - row[two]))
            for winner, weight in ((evalica.Winner.X, chance), (evalica.Winner.Y, 1 - chance)):
                for name, value in zip(given, (names[one], names[two], winner, weight), strict=True):
                    given[name].append(value)
    return given


def test_all_pairs_are_rated_as_by_evalica() -> None:
    scores = np.random.default_rng(6).normal(0, 1.5, (40, 5)) + np.array([0, 0.5, 1, -1, 0.2])
    fitted, pairs = bradley_terry(scored(scores))
    assert pairs == "all"
    given = evalicas(scores, [(one, two) for one in range(5) for two in range(one)])
    expected = np.log(evalica.bradley_terry(**given, tolerance=1e-12, limit=10_000).scores)
    for name, strength in fitted.items():
        assert strength == pytest.approx(expected[name] - expected["base"], abs=1e-4)


def test_win_rates_against_the_baseline_are_evalicas() -> None:
    scores = np.random.default_rng(7).normal(0, 1.5, (40, 4))
    expected = evalica.average_win_rate(**evalicas(scores, [(one, 0) for one in range(1, 4)])).scores
    for name, rate in Leaderboard(scored(scores)).win_rates().items():
        assert rate == pytest.approx(expected[name] if name != "base" else 0.5, abs=1e-9)


def test_a_model_that_always_wins_stays_finite() -> None:
    strengths, _ = bradley_terry([match(q, "x", 900.0) for q in range(5)])
    assert 10 < strengths["x"] <= LIMIT
    assert elo(0.0) == 1000
    assert elo(math.log(10)) == pytest.approx(1400)


def test_without_a_length_effect_it_is_the_raw_win_rate() -> None:
    # Each logit appears once with a longer and once with a shorter answer, so that beta is exactly 0.
    draws = np.random.default_rng(3).normal(0.5, 1, 25).tolist()
    matches = [
        match(2 * i + up, "x", draw, (20 + 15 * (2 * up - 1), 20)) for i, draw in enumerate(draws) for up in (0, 1)
    ]
    rates, beta = length_controlled(matches)
    assert beta == pytest.approx(0, abs=1e-4)
    assert rates["x"] == pytest.approx(Leaderboard(matches).win_rates()["x"], abs=1e-5)
    same = [replace(m, length_candidate=m.length_baseline) for m in matches]
    assert length_controlled(same)[0]["x"] == pytest.approx(Leaderboard(matches).win_rates()["x"], abs=1e-5)


def test_a_known_length_effect_is_found_and_taken_out() -> None:
    generator = np.random.default_rng(4)
    theta, bias, beta = {"brief": 0.8, "plain": 0.0, "wordy": -0.6}, {"brief": -40, "plain": 0, "wordy": 60}, 1.5
    words = {name: generator.normal(shift, 40, 400).round() for name, shift in bias.items()}
    spread = np.concatenate(list(words.values())).std()
    matches = [
        match(q, name, theta[name] + beta * float(np.tanh(extra / spread)), (int(200 + extra), 200))
        for name in theta
        for q, extra in enumerate(words[name])
    ]
    board = Leaderboard(matches)
    rates, found = length_controlled(matches)
    assert found == pytest.approx(beta, abs=1e-4)
    assert rates == pytest.approx({name: special.expit(value) for name, value in theta.items()}, abs=1e-4)
    raw = board.win_rates()
    assert raw["wordy"] > raw["brief"]
    assert rates["wordy"] < rates["brief"]
    assert list(board.frame("length_controlled")["model"]) == ["brief", "base", "plain", "wordy"]


def test_frames_of_fitted_views_rank_by_their_own_number() -> None:
    board = Leaderboard(scored(np.random.default_rng(5).normal(0, 1, (30, 5)) + np.arange(5)))
    table = board.frame("bradley_terry")
    assert list(table["rank"]) == [1, 2, 3, 4, 5]
    assert table["elo"].is_monotonic_decreasing
    assert table.loc[table["model"] == "base", "elo"].item() == 1000
    assert set(table["pairs"]) == {"all"}
