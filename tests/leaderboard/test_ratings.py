"""Fitted views against closed forms, evalica, data simulated with known strengths and length effects, raw win rates."""

from __future__ import annotations

import math

import evalica
import numpy as np
import pytest
from scipy import special, stats

from crm.leaderboard.outcomes import Outcomes
from crm.leaderboard.ranking import Leaderboard
from crm.leaderboard.ratings import bradley_terry, elo, length_control
from crm.report.tables import markdown_text
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


def test_a_known_length_effect_is_found_and_taken_out() -> None:
    generator = np.random.default_rng(4)
    theta, bias, beta = {"brief": 0.8, "plain": 0.0, "wordy": -0.6}, {"brief": -40, "plain": 0, "wordy": 60}, 1.5
    words = {name: generator.normal(shift, 40, 400).round() for name, shift in bias.items()}
    spread = np.concatenate(list(words.values())).std()
    logits = {name: level + beta * np.tanh(words[name] / spread) for name, level in theta.items()}
    given = outcomes(logits, words=200 + np.vstack(list(words.values())), base_words=200)
    board, control = Leaderboard(given), length_control(given)
    rates, found = control.rates, control.coefficient
    assert found == pytest.approx(beta, abs=1e-4)
    assert rates == pytest.approx({name: special.expit(value) for name, value in theta.items()}, abs=1e-4)
    raw = board.win_rates()
    assert raw["wordy"] > raw["brief"]
    assert rates["wordy"] < rates["brief"]
    assert list(board.frame("length_controlled")["model"]) == ["brief", "base", "plain", "wordy"]


def coin(queries: int, seed: int, **fixed: float) -> Outcomes:
    """A coin judges models that are 300 and no words longer than the baseline; ``fixed`` logits are of no coin."""
    random = np.random.default_rng(seed)
    base = random.integers(80, 160, queries)
    words = np.maximum(1, base + random.normal([[300.0], [0.0]], 40, (2, queries)).round())
    logits = dict(zip(("m0", "m1"), random.choice([2.94, -2.94], (2, queries)), strict=True))
    return outcomes(logits | {n: np.full(queries, x) for n, x in fixed.items()}, words=words, base_words=base)


def test_limits_without_a_length_effect_are_those_of_a_logit_by_hand() -> None:
    """Equal lengths everywhere: theta is the logit of the mean, and its error the delta method's."""
    logits = np.random.default_rng(8).normal(0.4, 1, 30)
    wins = special.expit(logits)
    p = wins.mean()
    error = math.sqrt(((wins - p) ** 2).sum() / 30 / 29) / (p * (1 - p))
    found = length_control(outcomes({"x": logits}, words=20))
    half = stats.t.ppf(0.975, 29) * error
    limits = [float(special.expit(special.logit(p) + side * half)) for side in (-1, 1)]
    assert [found.low["x"], found.high["x"]] == pytest.approx(limits, abs=1e-6) and not found.why


FLIPS = [(-1.0) ** query for query in range(20)]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (coin(1, 0), "there is one query only"),
        (outcomes({"x": FLIPS, "y": FLIPS}, words=[[90], [20]]), "the lengths of a model hardly vary"),
        (outcomes({"x": FLIPS}, words=90), "the lengths of a model hardly vary"),
        (outcomes({"x": np.array(FLIPS) * -900}, words=[[10, 30] * 10]), "the length coefficient is at its limit"),
    ],
    ids=["one query", "one length each", "one model of one length", "length decides"],
)
def test_what_the_data_do_not_determine_has_no_number(given: Outcomes, why: str) -> None:
    board = Leaderboard(given)
    found = board.length_control
    assert found.why == f"length control is not determined: {why}"
    assert all(math.isnan(value) for part in (found.rates, found.low, found.high) for value in part.values())
    table = board.frame("length_controlled").set_index("model")
    assert table.loc["base", "length_controlled"] == 0.5 and table["rank"].isna().all()
    assert table.drop(index="base")["length_controlled"].isna().all() and table["length_coefficient"].isna().all()
    text = markdown_text(board.frame("length_controlled"))
    assert not {"nan", "<na>", "none"} & set(text.lower().replace("|", " ").split())


def test_a_model_that_always_wins_has_no_length_controlled_rate_and_an_infinite_elo() -> None:
    board = Leaderboard(coin(20, 3, m1=900.0))
    assert board.length_control.why == "length control is not determined for m1: always won or always lost"
    table = board.frame("length_controlled").set_index("model")
    assert math.isnan(table.loc["m1", "length_controlled"])
    assert table["rank"].isna().to_dict() == {"m0": False, "base": False, "m1": True}
    assert sorted(table.loc[["m0", "base"], "rank"]) == [1, 2] and table.index[-1] == "m1"
    assert table.loc["m0", "low"] < table.loc["m0", "length_controlled"] < table.loc["m0", "high"]
    elos = board.frame("bradley_terry").set_index("model")["elo"]
    assert elos["m1"] == math.inf and elos["base"] == 1000 and math.isfinite(elos["m0"])
    assert Leaderboard(coin(20, 3, m1=-900.0)).frame("bradley_terry")["elo"].iloc[-1] == -math.inf
