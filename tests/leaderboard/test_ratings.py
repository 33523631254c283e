"""Fitted views against closed forms, evalica, data simulated with known strengths and length effects, raw win rates."""

from __future__ import annotations

import math
from dataclasses import replace

import evalica
import numpy as np
import pytest
from scipy import special, stats

from crm.leaderboard.outcomes import of_matches
from crm.leaderboard.ranking import Leaderboard, shown
from crm.leaderboard.ratings import LIMIT, bound, bradley_terry, elo, length_control
from crm.report.tables import markdown_text
from crm.schema import Match


def match(query: int, candidate: str, logit: float, words: tuple[int, int] = (10, 20)) -> Match:
    return Match(f"q{query}", "Arts", candidate, "base", logit, *words)


def test_two_models_give_the_logit_of_the_win_rate() -> None:
    matches = [match(0, "x", 2.0), match(1, "x", -1.0), match(2, "x", 0.5)]
    rate = Leaderboard(matches).win_rates()["x"]
    strengths, pairs = bradley_terry(matches)
    assert pairs == "baseline"
    assert strengths == pytest.approx({"base": 0.0, "x": math.log(rate / (1 - rate))}, abs=1e-5)


def scored(scores: np.ndarray) -> list[Match]:
    """Column 0 is the baseline's score; the others are candidates."""
    return [
        replace(match(q, f"m{i}", float(row[i] - row[0])), score_candidate=float(row[i]), score_baseline=float(row[0]))
        for q, row in enumerate(scores)
        for i in range(1, len(row))
    ]


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


def test_a_model_that_always_wins_stays_finite() -> None:
    strengths, _ = bradley_terry([match(q, "x", 900.0) for q in range(5)])
    assert 10 < strengths["x"] <= LIMIT
    assert elo(0.0) == 1000
    assert elo(math.log(10)) == pytest.approx(1400)


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
    control = length_control(of_matches(matches))
    rates, found = control.rates, control.coefficient
    assert found == pytest.approx(beta, abs=1e-4)
    assert rates == pytest.approx({name: special.expit(value) for name, value in theta.items()}, abs=1e-4)
    raw = board.win_rates()
    assert raw["wordy"] > raw["brief"]
    assert rates["wordy"] < rates["brief"]
    assert list(board.frame("length_controlled")["model"]) == ["brief", "base", "plain", "wordy"]


def coin(queries: int, seed: int, extra: tuple[int, ...] = (300, 0)) -> list[Match]:
    """A coin judges models that are so many words longer than the baseline, in both."""
    random = np.random.default_rng(seed)
    found = []
    for query in range(queries):
        base = int(random.integers(80, 160))
        for place, more in enumerate(extra):
            words = max(1, base + round(random.normal(more, 40)))
            found.append(match(query, f"m{place}", float(random.choice([2.94, -2.94])), (words, base)))
    return found


@pytest.mark.parametrize("queries", [10])
def test_limits_of_length_controlled_rates_hold_the_truth(queries: int) -> None:
    """A coin's true rate is one half; a model that is much longer on few queries has limits that say so."""
    held, widths = [], []
    for seed in range(30):
        found = length_control(of_matches(coin(queries, seed)))
        assert not found.why
        held += [found.low[name] <= 0.5 <= found.high[name] for name in found.rates]
        assert all(found.low[name] <= rate <= found.high[name] for name, rate in found.rates.items())
        widths.append(found.high["m0"] - found.low["m0"])
    assert np.mean(held) >= 0.9 and np.mean(widths) > (0.7 if queries == 10 else 0.4)


def test_limits_without_a_length_effect_are_those_of_a_logit_by_hand() -> None:
    """Equal lengths everywhere: theta is the logit of the mean, and its error the delta method's."""
    logits = np.random.default_rng(8).normal(0.4, 1, 30)
    matches = [match(q, "x", float(logit), (20, 20)) for q, logit in enumerate(logits)]
    wins = special.expit(logits)
    p = wins.mean()
    error = math.sqrt(((wins - p) ** 2).sum() / 30 / 29) / (p * (1 - p))
    found = length_control(of_matches(matches))
    half = stats.t.ppf(0.975, 29) * error
    limits = [float(special.expit(special.logit(p) + side * half)) for side in (-1, 1)]
    assert [found.low["x"], found.high["x"]] == pytest.approx(limits, abs=1e-6) and not found.why


@pytest.mark.parametrize(
    ("matches", "why"),
    [
        (coin(1, 0), "there is one query only"),
        ([match(q, name, (-1.0) ** q, (words, 20)) for q in range(20) for name, words in (("x", 90), ("y", 20))],
         "the lengths of a model hardly vary"),
        ([match(q, "x", (-1.0) ** q, (90, 20)) for q in range(20)], "the lengths of a model hardly vary"),
        ([match(q, "x", 900.0 if q % 2 else -900.0, (20 + 10 * (-1) ** (q + 1), 20)) for q in range(20)],
         "the length coefficient is at its limit"),
    ],
    ids=["one query", "one length each", "one model of one length", "length decides"],
)  # fmt: skip
def test_what_the_data_do_not_determine_has_no_number(matches: list[Match], why: str) -> None:
    board = Leaderboard(matches)
    found = board.length_control
    assert found.why == f"length control is not determined: {why}"
    assert all(math.isnan(value) for part in (found.rates, found.low, found.high) for value in part.values())
    table = board.frame("length_controlled").set_index("model")
    assert table.loc["base", "length_controlled"] == 0.5 and table["rank"].isna().all()
    assert table.drop(index="base")["length_controlled"].isna().all() and table["length_coefficient"].isna().all()
    text = markdown_text(board.frame("length_controlled"))
    assert "|      – | base " in text and not {"nan", "<na>", "none"} & set(text.lower().replace("|", " ").split())


def test_a_model_that_always_wins_has_no_length_controlled_rate_and_an_elo_of_at_least() -> None:
    matches = [replace(one, preference_logit=900.0) if one.candidate == "m1" else one for one in coin(20, 3)]
    board = Leaderboard(matches)
    assert board.length_control.why == "length control is not determined for m1: always won or always lost"
    table = board.frame("length_controlled").set_index("model")
    assert math.isnan(table.loc["m1", "length_controlled"]) and table["rank"].isna().to_dict() == {
        "m0": False,
        "base": False,
        "m1": True,
    }
    assert sorted(table.loc[["m0", "base"], "rank"]) == [1, 2] and table.index[-1] == "m1"
    assert table.loc["m0", "low"] < table.loc["m0", "length_controlled"] < table.loc["m0", "high"]

    elos = board.frame("bradley_terry").set_index("model")
    assert elos["bound"].to_dict() == {"m1": "at least", "m0": "", "base": ""}
    text = markdown_text(shown(board.frame("bradley_terry")))
    assert f"at least {elos.loc['m1', 'elo']:.0f}" in text and "| 1000.000" in text and "bound" not in text
    lost = [replace(one, preference_logit=-900.0) if one.candidate == "m1" else one for one in coin(20, 3)]
    assert "at most -" in markdown_text(shown(Leaderboard(lost).frame("bradley_terry")))
    assert (bound(4.0), bound(-4.0), bound(LIMIT), bound(-LIMIT)) == ("", "", "at least", "at most")
    plain = Leaderboard(coin(20, 3)).frame("bradley_terry")
    assert shown(plain).equals(plain.drop(columns="bound"))
