"""Bradley-Terry strengths against closed forms, evalica and raw win rates."""

from __future__ import annotations

import math

import evalica
import numpy as np
import pytest
from scipy import special

from crm.leaderboard.ranking import Leaderboard, bradley_terry, elo
from tests.boards import outcomes


def test_two_models_give_the_logit_of_the_win_rate() -> None:
    given = outcomes({"x": [2.0, -1.0, 0.5]})
    rate = Leaderboard(given).win_rates()["x"]
    strengths, pairs = bradley_terry(given)
    assert pairs == "baseline"
    assert strengths == pytest.approx({"base": 0.0, "x": math.log(rate / (1 - rate))}, abs=1e-5)


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
    logits = {f"m{place}": scores[:, place] - scores[:, 0] for place in range(1, 5)}
    fitted, pairs = bradley_terry(outcomes(logits, scores=np.roll(scores, -1, axis=1).T))
    assert pairs == "all"
    given = evalicas(scores, [(one, two) for one in range(5) for two in range(one)])
    expected = np.log(evalica.bradley_terry(**given, tolerance=1e-12, limit=10_000).scores)
    for name, strength in fitted.items():
        assert strength == pytest.approx(expected[name] - expected["base"], abs=1e-4)


def test_elo_by_hand() -> None:
    assert (elo(0.0), elo(math.log(10)), elo(-math.inf)) == (1000, pytest.approx(1400), -math.inf)


def test_a_model_that_always_wins_has_an_infinite_elo() -> None:
    flips = [(-1.0) ** query for query in range(20)]
    table = Leaderboard(outcomes({"m0": flips, "m1": [900.0] * 20})).bradley_terry().set_index("model")
    assert table["elo"]["m1"] == math.inf and table["elo"]["base"] == 1000 and math.isfinite(table["elo"]["m0"])
    assert list(table["rank"]) == [1, 2, 3] and table.index[0] == "m1"
    assert Leaderboard(outcomes({"m0": flips, "m1": [-900.0] * 20})).bradley_terry()["elo"].iloc[-1] == -math.inf
