"""Leaderboards of small banks against sums by hand, SciPy's paired test, symmetries and simulated truth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from crm.leaderboard.agreement import compare, compare_with_truth
from crm.leaderboard.ranking import VIEWS, Leaderboard, paired_p
from crm.schema import Match


def match(query: str, candidate: str, logit: float, topic: str = "Arts", words: tuple[int, int] = (10, 20)) -> Match:
    return Match(query, topic, candidate, "base", logit, *words)


def bank(strengths: Mapping[str, float], queries: int = 60, noise: float = 1.0, seed: int = 0) -> list[Match]:
    generator = np.random.default_rng(seed)
    return [
        match(f"q{query}", name, strength + noise * float(generator.normal()), topic="AB"[query % 2])
        for query in range(queries)
        for name, strength in strengths.items()
    ]


def test_win_rates_by_hand_with_the_baseline_as_a_row() -> None:
    third = math.log(3)  # odds of 3: 0.75
    matches = [match("q1", "x", third), match("q2", "x", 0.0), match("q1", "y", -third), match("q2", "y", -third)]
    board = Leaderboard(matches)
    assert list(board.win_rates()) == ["x", "base", "y"]
    assert list(board.win_rates().values()) == pytest.approx([0.625, 0.5, 0.25])
    x, base, y = board.rows
    assert (x.n, x.mean_words, base.mean_words, base.interval) == (2, 10, 20, None)
    # Two values 0.75 and 0.5: t with one degree of freedom, cut to [0, 1].
    assert x.interval is not None
    assert (x.interval.low, x.interval.high) == (0.0, 1.0)
    assert x.interval.standard_error == pytest.approx(0.125)
    # A constant 0.25 on two queries is still no point: Wilson at n = 2.
    assert y.interval is not None
    assert y.interval.high - y.interval.low > 0.5


def test_groups_equal_scipys_paired_test_with_holm_by_hand() -> None:
    matches = bank({"a": 1.2, "b": 1.0, "c": 0.9, "d": -0.5}, queries=40)
    board = Leaderboard(matches)
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
        assert set(row.tied_with) == {
            name for name in columns if name != row.model and (name, row.model) not in different
        }
        better = [n for n in columns if (n, row.model) in different and columns[n].mean() > row.win_rate]
        assert row.rank_low == 1 + len(better)
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
    plain = [match(f"q{i}", name, x) for i, pair in enumerate(logits) for name, x in zip("ab", pair, strict=True)]
    turned = [replace(m, preference_logit=-m.preference_logit) for m in plain]
    first, second = Leaderboard(plain), Leaderboard(turned)
    for row in first.rows:
        other = next(r for r in second.rows if r.model == row.model)
        assert other.win_rate == pytest.approx(1 - row.win_rate)
        assert set(other.tied_with) == set(row.tied_with)
        if row.interval is not None and other.interval is not None:
            assert other.interval.low == pytest.approx(1 - row.interval.high)


def test_a_model_that_lacks_a_match_on_a_query_is_refused() -> None:
    matches = [m for m in bank({"a": 2.0, "b": 0.0}, queries=10) if (m.candidate, m.query_id) != ("a", "q3")]
    with pytest.raises(ValueError, match="'a' has none on query 'q3', others have; give one for every query"):
        Leaderboard(matches)


def unread(matches: list[Match], candidate: str, queries: set[str]) -> list[Match]:
    """The matches of a judge that cannot read ``candidate`` on some queries."""
    lost = {"preference_logit": None, "score_candidate": None, "score_baseline": None}
    return [replace(m, **lost) if m.candidate == candidate and m.query_id in queries else m for m in matches]


@pytest.mark.parametrize("scored", [False, True], ids=["logits alone", "with scores"])
def test_what_a_judge_cannot_read_never_helps_whoever_wrote_it(scored: bool) -> None:
    """A model that is unreadable just where it loses: in no view does it gain a place or a point."""
    every = bank({"a": 1.0, "b": 0.3, "sly": -0.8}, queries=60, noise=1.5)
    every = [replace(m, length_candidate=100 if m.candidate == "sly" else 10 + int(m.query_id[1:])) for m in every]
    if scored:
        every = [replace(m, score_candidate=m.preference_logit, score_baseline=0.0) for m in every]
    lost = {m.query_id for m in every if m.candidate == "sly" and m.preference_logit < 0}
    assert 20 < len(lost) < 55
    honest, hidden = Leaderboard(every), Leaderboard(unread(every, "sly", lost))
    for view, column in (
        ("win_rate", "win_rate"), ("bradley_terry", "elo"), ("length_controlled", "length_controlled"),
        ("topics", "A"), ("topics", "B"),
    ):  # fmt: skip
        before, after = (board.frame(view).set_index("model") for board in (honest, hidden))
        assert after.loc["sly", column] <= before.loc["sly", column] + 1e-9, (view, column)
        assert after.loc["sly", "rank"] >= before.loc["sly", "rank"]
    assert {row.n for row in hidden.rows} == {60} and hidden.left_out == 0
    assert {row.model: row.unread for row in hidden.rows} == {"a": 0, "b": 0, "base": 0, "sly": len(lost)}
    by_hand = [0.0 if m.query_id in lost else 1 / (1 + math.exp(-m.preference_logit)) for m in every if "sly" in str(m)]
    assert hidden.win_rates()["sly"] == pytest.approx(np.mean(by_hand))
    assert hidden.explain_unread() == (
        f"{len(lost)} comparisons of 1 models could not be read by the judge and count as lost (column unread)"
    )
    assert honest.explain_unread() == ""


def test_a_query_on_which_nobody_can_be_read_is_left_out_for_all() -> None:
    every = bank({"a": 1.0, "b": -1.0}, queries=12)
    partly = unread(unread(every, "a", {"q1", "q2"}), "b", {"q2"})
    board = Leaderboard(partly)
    rest = Leaderboard([m for m in unread(every, "a", {"q1"}) if m.query_id != "q2"])
    assert board.left_out == 1 and {row.n for row in board.rows} == {11}
    for view in VIEWS:
        assert board.frame(view).equals(rest.frame(view))
    assert board.explain_unread().endswith("; 1 queries on which none could be read are left out for all")
    with pytest.raises(ValueError, match="the judge could read none of them"):
        Leaderboard(unread(unread(every, "a", {f"q{n}" for n in range(12)}), "b", {f"q{n}" for n in range(12)}))


def test_frame_sorts_and_names_what_it_refuses() -> None:
    board = Leaderboard(bank({"a": 2.0, "b": -2.0}))
    assert list(board.frame()["model"]) == ["a", "base", "b"]
    assert list(board.frame(sort="win_rate", ascending=True)["model"]) == ["b", "base", "a"]
    assert list(board.frame(sort="model")["model"]) == ["a", "b", "base"]
    with pytest.raises(ValueError, match="view: 'nope' is not one of win_rate"):
        board.frame("nope")
    with pytest.raises(ValueError, match="sort: 'nope' is not a column"):
        board.frame(sort="nope")


@pytest.mark.parametrize(
    ("matches", "message"),
    [
        ([], "none given"),
        ([match("q", "a", 1), replace(match("q", "b", 1), baseline="other")], "baseline: base, other"),
        ([match("q", "base", 1)], "base is the baseline itself"),
        ([match("q", "a", 1), match("q", "a", 2)], "a appears twice on query q"),
    ],
)
def test_inconsistent_matches_are_refused(matches: list[Match], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Leaderboard(matches)


def test_tau_between_opposite_equal_and_unrelated_leaderboards() -> None:
    strengths = {name: float(i) / 2 for i, name in enumerate("abcdefg", start=-3)}
    matches = bank(strengths, noise=0.3)
    board = Leaderboard(matches)
    turned = Leaderboard([replace(m, preference_logit=-m.preference_logit) for m in matches])
    assert compare(board, board, seed=1).mean == pytest.approx(1)
    opposite = compare(board, turned, seed=1, resamples=200)
    assert opposite.mean == pytest.approx(-1)
    # By hand: two neighbours change places in a list of eight, 1 - 2 * 1 / 28.
    swapped = {**strengths, "a": strengths["b"], "b": strengths["a"]}
    got = compare(board, Leaderboard(bank(swapped, noise=0.3, seed=1)), seed=1, resamples=200)
    assert got.mean == pytest.approx(1 - 4 / 28, abs=0.08)
    assert got.low <= got.mean <= got.high
    assert got == compare(Leaderboard(bank(swapped, noise=0.3, seed=1)), board, seed=1, resamples=200)


def test_tau_against_true_win_rates() -> None:
    strengths = {name: float(i) for i, name in enumerate("abcde", start=-2)}
    matches = bank(strengths, queries=30, noise=2.0)
    board = Leaderboard(matches)
    got = compare_with_truth(board, strengths, seed=3, resamples=200)
    assert 0.7 < got.mean <= 1
    assert compare_with_truth(board, {**strengths, "base": 0.01}, seed=3, resamples=200).mean > 0.7
    with pytest.raises(ValueError, match=r"without a true win rate: \['a'\]; unknown models: \['z'\]"):
        compare_with_truth(board, {**{k: v for k, v in strengths.items() if k != "a"}, "z": 1.0}, seed=3)
    with pytest.raises(ValueError, match="in one only: e"):
        compare(board, Leaderboard([m for m in matches if m.candidate != "e"]), seed=3)


def test_records_hold_what_the_tables_hold() -> None:
    """And a topic that is called as a column is not lost."""
    matches = [
        replace(one, topic="rank" if one.topic == "A" else "B", length_candidate=14 + int(one.query_id[1:]) % 13)
        for one in bank({"x": 1.0, "y": 0.2, "z": -1.0})
    ]
    board = Leaderboard(matches)
    found = {record["model"]: record for record in board.records()}
    frame = board.frame().set_index("model")
    for name, record in found.items():
        for column in ("rank", "rank_low", "win_rate", "n", "unread", "mean_words", "tied_with"):
            assert record[column] == frame.loc[name, column], (name, column)
        assert record["rank_high"] == record["rank_low"] + len([tie for tie in record["tied_with"].split(", ") if tie])
        assert (record["low"] is None) == math.isnan(frame.loc[name, "low"])
        assert record["B"] == board.frame("topics").set_index("model").loc[name, "B"] and "topic rank" in record
    controlled = board.frame("length_controlled").set_index("model")["length_controlled"]
    assert {name: record["length_controlled"] for name, record in found.items()} == pytest.approx(controlled.to_dict())
    for name in ("x", "y", "z"):
        assert found[name]["length_controlled_low"] < controlled[name] < found[name]["length_controlled_high"]
    constant = Leaderboard([replace(one, length_candidate=10) for one in matches]).records()
    for name in ("length_controlled", "length_controlled_low", "length_controlled_high"):
        assert [record[name] for record in constant if record["model"] != "base"] == [None] * 3


def unanswered(matches: list[Match], candidate: str, queries: set[str]) -> list[Match]:
    """The matches of a judge whose endpoint gave no answer on some queries of ``candidate``."""
    unknown = {m.query_id for m in matches} & queries
    return [
        Match(m.query_id, m.topic, candidate, m.baseline, None, 10, 20, answered=False)
        if m.candidate == candidate and m.query_id in unknown
        else m
        for m in matches
    ]


@pytest.mark.parametrize("scored", [False, True], ids=["logits alone", "with scores"])
def test_a_comparison_without_an_answer_is_unknown_in_every_view(scored: bool) -> None:
    """The ranking is that of the queries answered for all: nothing is lost, and no view counts another query."""
    every = bank({"a": 2.0, "b": 0.3}, queries=20)
    if scored:
        every = [replace(m, score_candidate=m.preference_logit, score_baseline=0.0) for m in every]
    lacking = {f"q{n}" for n in range(12)}
    board = Leaderboard(unanswered(unanswered(every, "a", lacking), "b", {"q3"}))
    rest = Leaderboard([m for m in every if m.query_id not in lacking])
    for view in VIEWS:
        assert board.frame(view).equals(rest.frame(view)), view
    assert board.records() == rest.records() and board.rows[0].model == "a"
    assert (board.unanswered, board.incomplete, board.unread) == ({"a": 12, "b": 1}, 12, {})
    assert board.explain_unread() == (
        "13 comparisons got no answer and are not known (a 12, b 1): the 12 queries that lack one are left out for all"
    )
    assert math.isnan(unanswered(every, "a", {"q0"})[0].win)


def test_without_a_query_answered_for_all_nobody_is_ranked() -> None:
    every = bank({"a": 1.0, "b": 0.0}, queries=4)
    none = unanswered(unanswered(every, "a", {"q0", "q1", "q2"}), "b", {"q3"})
    with pytest.raises(ValueError, match=r"on none of 4 queries .* 'a' has the fewest answers, 1; .*bank\.without"):
        Leaderboard(none)
