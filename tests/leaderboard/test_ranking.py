"""Leaderboards of small banks against sums by hand, SciPy's paired test, symmetries and simulated truth."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import evalica
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats
from statsmodels.stats.proportion import proportion_confint

from crm.leaderboard.outcomes import Outcomes
from crm.leaderboard.ranking import Leaderboard, bradley_terry, compare, elo, may_be_first, paired_p, win_rate_limits
from crm.leaderboard.run import without_flawed
from tests.made_files import outcomes


def views(board: Leaderboard) -> dict[str, pd.DataFrame]:
    """Its tables by model."""
    records = pd.DataFrame([vars(row) | row.topics for row in board.rows])
    tables = {"frame": board.frame(), "records": records, "bradley_terry": board.bradley_terry()}
    return {name: table.set_index("model") for name, table in tables.items()}


def noisy(strengths: Mapping[str, float], queries: int = 60, noise: float = 1.0, seed: int = 0) -> dict[str, Any]:
    draws = np.random.default_rng(seed).normal(size=(queries, len(strengths)))
    return {name: level + noise * draws[:, place] for place, (name, level) in enumerate(strengths.items())}


def bank(strengths: Mapping[str, float], queries: int = 60, **given: Any) -> Outcomes:
    return outcomes(noisy(strengths, queries, **given), topics="AB" * (queries // 2))


def test_win_rates_by_hand_with_the_baseline_as_a_row() -> None:
    third = math.log(3)  # odds of 3: 0.75
    board = Leaderboard(outcomes({"x": [third, 0.0], "y": [-third, -third]}))
    assert list(board.win_rates()) == ["x", "base", "y"]
    assert list(board.win_rates().values()) == pytest.approx([0.625, 0.5, 0.25])
    x, base, y = board.rows
    assert (x.n, x.mean_words, base.mean_words, base.low, base.high) == (2, 10, 20, None, None)
    assert (x.low, x.high) == (0, 1), "12.7, Student's quantile, times 0.125"
    assert y.low is not None and y.high is not None and y.high - y.low > 0.5, "a constant on two queries is no point"


@pytest.mark.parametrize("logits", [[12, 14], [12, 14, 16, 13, 15], [5, 4, 6, 5.5, 7]])
def test_a_judge_without_doubt_on_few_queries_says_little(logits: list[float]) -> None:
    x, base = Leaderboard(outcomes({"x": logits})).rows
    low, high = proportion_confint(len(logits), len(logits), method="wilson")
    assert (x.low, x.high) == pytest.approx((low, high), abs=0.02) and x.tied_with == ("base",) and base.rank_low == 1


def test_limits_are_students_unless_a_rare_loss_may_be_unseen() -> None:
    """Coverage by simulation (Student's alone: half), and no jump from one query."""
    rng = np.random.default_rng(1)
    wins = rng.uniform(size=(100, 1))
    interval = stats.ttest_1samp(wins[:, 0], 0).confidence_interval()
    assert np.ravel(win_rate_limits(wins)[1:]) == pytest.approx([interval.low, interval.high])
    for top in (0.9, 0.99):
        _, low, high = win_rate_limits(np.where(rng.random((25, 2000)) < 0.03, 0.0, top))
        assert ((low <= 0.97 * top) & (0.97 * top <= high)).mean() > 0.95
    nearly = np.vstack([np.full((24, 50), 0.99), np.linspace(0.99, 0.5, 50)])  # a query that gets less certain
    widths = [np.subtract(*win_rate_limits(rows)[:0:-1]) for rows in (nearly, nearly[-19:], nearly[-20:])]
    assert np.abs(np.diff(widths[0])).max() < 0.01 and np.abs(widths[1] - widths[2]).max() < 0.02


def test_groups_equal_scipys_paired_test_with_holm_by_hand() -> None:
    board = Leaderboard(bank({"a": 1.2, "b": 1.0, "c": 0.9, "d": -0.5}, queries=40))
    columns = {name: board.wins[name].to_numpy() for name in board.wins}
    pairs = [(one, two) for one in columns for two in columns if one < two]
    raw = sorted((float(stats.ttest_rel(columns[one], columns[two]).pvalue), one, two) for one, two in pairs)
    different = set()
    for place, (p, one, two) in enumerate(raw):
        if p * (len(raw) - place) >= 0.05:
            break
        different |= {(one, two), (two, one)}
    assert 0 < len(different) < 2 * len(pairs)
    for row in board.rows:
        others = {name for name in columns if name != row.model}
        assert set(row.tied_with) == {name for name in others if (name, row.model) not in different}
        better = [n for n in columns if (n, row.model) in different and columns[n].mean() > row.win_rate]
        assert (row.rank_low, row.rank_high) == (1 + len(better), 1 + len(better) + len(row.tied_with))
    assert set(board.frame()["baseline"]) == {"base"}
    assert [row.rank for row in board.rows] == [1, 2, 3, 4, 5]


def test_paired_p_values_of_all_columns_are_scipys() -> None:
    """Equal differences and no difference are special."""
    table = np.random.default_rng(5).normal(0.1, 1.0, (40, 12))
    table[:, 0], table[:, 1] = 0.0, 0.25
    found = paired_p(table)
    assert found[2:] == pytest.approx([float(stats.ttest_1samp(row, 0.0).pvalue) for row in table[:, 2:].T], rel=1e-9)
    assert found[:2] == pytest.approx([1.0, 2.0**-39])
    assert paired_p(table[:1]) == pytest.approx(1.0)


@settings(derandomize=True, deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.floats(-6, 6), st.floats(-6, 6)), min_size=3, max_size=12))
def test_swapping_candidate_and_baseline_mirrors_everything(logits: list[tuple[float, float]]) -> None:
    table = np.array(logits).T
    first, second = (Leaderboard(outcomes(dict(zip("ab", sign * table, strict=True)))) for sign in (1, -1))
    for row in first.rows:
        other = next(r for r in second.rows if r.model == row.model)
        assert other.win_rate == pytest.approx(1 - row.win_rate)
        assert set(other.tied_with) == set(row.tied_with)
        if row.high is not None:
            assert other.low == pytest.approx(1 - row.high)


@pytest.mark.parametrize("scored", [False, True], ids=["logits alone", "with scores"])
def test_what_a_judge_cannot_read_never_helps_whoever_wrote_it(scored: bool) -> None:
    """A model that is unreadable just where it loses: in no view does it gain a place or a point."""
    logits = noisy({"a": 1.0, "b": 0.3, "sly": -0.8}, noise=1.5)
    lost = logits["sly"] < 0
    assert 20 < lost.sum() < 55
    words = np.vstack([np.arange(60) + 10] * 2 + [np.full(60, 100)])
    seen, hidden_scores = np.vstack([*logits.values(), np.zeros(60)]), np.vstack([*logits.values(), np.zeros(60)])
    hidden_scores[2, lost] = -np.inf
    given: dict[str, Any] = {"topics": "AB" * 30, "words": words}
    honest = Leaderboard(outcomes(logits, scores=seen if scored else None, **given))
    without = {**logits, "sly": np.where(lost, np.nan, logits["sly"])}
    hidden = Leaderboard(outcomes(without, scores=hidden_scores if scored else None, **given))
    for column in ("win_rate", "elo", "A", "B"):
        before, after = (views(board)["bradley_terry" if column == "elo" else "records"] for board in (honest, hidden))
        assert after.loc["sly", column] <= before.loc["sly", column] + 1e-9, column
        assert after.loc["sly", "rank"] >= before.loc["sly", "rank"]
    assert {row.n for row in hidden.rows} == {60} and hidden.left_out == 0
    assert {row.model: row.unread for row in hidden.rows} == {"a": 0, "b": 0, "base": 0, "sly": lost.sum()}
    assert hidden.win_rates()["sly"] == pytest.approx(np.where(lost, 0, special.expit(logits["sly"])).mean())
    assert hidden.explain_unread() == (
        f"{lost.sum()} comparisons of 1 models could not be read by the judge and count as lost (column unread)"
    )
    assert honest.explain_unread() == ""


def test_a_query_on_which_nobody_can_be_read_is_left_out_for_all() -> None:
    every = noisy({"a": 1.0, "b": -1.0}, queries=12)
    every["a"][[1, 2]], every["b"][2] = np.nan, np.nan
    given = outcomes(every, topics="AB" * 6)
    board, rest = Leaderboard(given), Leaderboard(given.on(np.arange(12) != 2))
    assert board.left_out == 1 and {row.n for row in board.rows} == {11}
    for name, view in views(board).items():
        assert view.equals(views(rest)[name]), name
    assert "; 1 queries are left out for all" in board.explain_unread()
    with pytest.raises(ValueError, match="the judge could read none of its responses"):
        Leaderboard(outcomes({"a": [math.nan] * 3}))


def test_tau_between_opposite_equal_and_unrelated_leaderboards() -> None:
    strengths = {name: float(i) / 2 for i, name in enumerate("abcdefg", start=-3)}
    logits = noisy(strengths, noise=0.3)
    board, turned = (Leaderboard(outcomes({n: sign * row for n, row in logits.items()})) for sign in (1, -1))
    assert compare(board, board, seed=1).mean == pytest.approx(1)
    assert compare(board, turned, seed=1, resamples=200).mean == pytest.approx(-1)
    unlike = compare(board, Leaderboard(bank(strengths, seed=1)), seed=1, resamples=200)
    assert unlike == compare(Leaderboard(bank(strengths, seed=1)), board, seed=1, resamples=200)
    assert unlike.low <= unlike.mean <= unlike.high
    with pytest.raises(ValueError, match="in one only: g"):
        compare(board, Leaderboard(outcomes({n: row for n, row in logits.items() if n != "g"})), seed=3)


def test_tau_against_true_win_rates() -> None:
    strengths = {name: float(i) for i, name in enumerate("abcde", start=-2)}
    board = Leaderboard(bank(strengths, queries=30, noise=2.0))
    assert 0.7 < compare(board, strengths, seed=3, resamples=200).mean <= 1
    assert compare(board, {**strengths, "base": 0.01}, seed=3, resamples=200).mean > 0.7
    with pytest.raises(ValueError, match="in one only: a, z"):
        compare(board, {**{k: v for k, v in strengths.items() if k != "a"}, "z": 1.0}, seed=3)


@pytest.mark.parametrize("seed", range(3))
def test_who_may_be_first_by_scipys_paired_test(seed: int) -> None:
    """Fewer than those whom no pair of all tells from the first, and the best among them."""
    strengths = {f"m{n:02}": 1.0 - 0.12 * n for n in range(12)}
    board = Leaderboard(bank(strengths, queries=80, seed=seed))
    wins, others = board.wins, len(strengths)
    first = [name for name, may_be in zip(wins, may_be_first(wins.to_numpy()), strict=True) if may_be]
    for model in wins:
        p = [stats.ttest_rel(wins[name], wins[model], alternative="greater").pvalue for name in wins]
        least = min(value for value in p if not math.isnan(value))
        assert (model in first) == (least * others >= 0.05), model
    assert "m00" in first and len(first) <= sum(row.rank_low == 1 for row in board.rows)


def test_two_that_are_the_same_may_both_be_first() -> None:
    assert may_be_first(np.full((30, 2), 0.5)).all() and may_be_first(np.eye(3)[[0, 1, 2]]).all()


@pytest.mark.parametrize("scored", [False, True], ids=["logits alone", "with scores"])
def test_a_comparison_without_an_answer_is_unknown_in_every_view(scored: bool) -> None:
    """The ranking is that of the queries answered for all: nothing is lost, and no view counts another query."""
    logits = noisy({"a": 2.0, "b": 0.3}, queries=20)
    lacking = np.array([np.arange(20) < 12, np.arange(20) == 3])
    scores = np.vstack([*logits.values(), np.zeros(20)]) if scored else None
    given = outcomes(logits, topics="AB" * 10, unanswered=lacking, scores=scores)
    whole = replace(given, logits=outcomes(logits).logits, answered=outcomes(logits).answered)
    board, rest = Leaderboard(given), Leaderboard(whole.on(np.arange(20) >= 12))
    for name, view in views(board).items():
        assert view.equals(views(rest)[name]), name
    assert board.rows[0].model == "a"
    assert (board.unanswered, board.left_out, board.unread) == ({"a": 12, "b": 1}, 12, {})
    assert board.explain_unread().startswith("13 comparisons got no answer and are not known (a 12, b 1); 12 queries")
    flawed = pd.DataFrame(False, given.queries, given.models)
    flawed.iloc[[0, 19]] = True
    kept = without_flawed(board, flawed)
    assert (dict(kept.unanswered), kept.left_out, len(kept.wins)) == ({"a": 11, "b": 1}, 11, 7), "a flaw hides no loss"
    none = outcomes({"a": [1.0] * 4, "b": [0.0] * 4}, unanswered=[[1, 1, 1, 0], [0, 0, 0, 1]])
    with pytest.raises(ValueError, match=r"on none of 4 queries .* 'a' has the fewest answers, 1; .*leave that model"):
        Leaderboard(none)


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
