"""Comparisons of votes: whose criteria are shown, in which direction, under which noise; suites drawn from the data."""

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crm.data.comparisons import (
    DIRECTIONS,
    NOISES,
    OPERATIONS,
    CriteriaPool,
    add_noise,
    choose_side,
    fixed_suites,
    make_comparisons,
    nominal_winner,
    parse_suite,
    suite_names,
    with_generic_criterion,
)
from crm.data.splits import Splits
from crm.schema import GENERIC_CRITERION, MAX_CRITERIA, Message, Preference
from tests.conftest import say


def vote(i: int, winner: str, n_a: int = 3, n_b: int = 2) -> Preference:
    return Preference(
        f"p{i}",
        *(say(f"user: q {i}"), say(f"assistant: a {i}"), say(f"assistant: b {i}"), winner),
        criteria_a=tuple(f"a{i}-{k}" for k in range(n_a)),
        criteria_b=tuple(f"b{i}-{k}" for k in range(n_b)),
        criteria_topics_a=tuple(f"topic {(i + k) % 7}" for k in range(n_a)),
        criteria_topics_b=tuple(f"topic {(i + 3 + k) % 7}" for k in range(n_b)),
    )


votes = st.lists(st.tuples(st.sampled_from(["a", "b", "tie"]), st.integers(0, 6), st.integers(0, 6)), max_size=25).map(
    lambda rows: [vote(i, *row) for i, row in enumerate(rows)]
)
POOL = CriteriaPool.from_preferences([vote(i, "a") for i in range(100, 130)])


@given(votes, st.sampled_from(DIRECTIONS), st.sampled_from(NOISES), st.sampled_from(["drop", "soft"]), st.randoms())
def test_rows_add_up_and_do_not_depend_on_their_order(preferences, direction, noise, ties, rng: random.Random) -> None:
    settings_ = {"direction": direction, "noise": noise, "pool": POOL, "seed": 3, "epoch": 1, "ties": ties}
    made, counts = make_comparisons(preferences, **settings_)
    readings = 2 if direction == "both" else 1
    assert counts["made"] + counts["ties_dropped"] + counts["without_criteria"] == len(preferences) * readings
    for prefix in ("direction_", "noise_"):
        assert sum(n for name, n in counts.items() if name.startswith(prefix)) == counts["made"] == len(made)
    shuffled = rng.sample(preferences, len(preferences))
    again, _ = make_comparisons(shuffled, **settings_)
    assert {c.id: c for c in again} == {c.id: c for c in made}
    assert len({c.id for c in made}) == len(made)


@given(votes, st.sampled_from(DIRECTIONS), st.sampled_from(["none", "remove"]))
def test_label_is_the_side_whose_criteria_are_shown(preferences, direction, noise) -> None:
    made, _ = make_comparisons(preferences, direction=direction, noise=noise, pool=None, seed=0, epoch=0)
    winner = {p.id: p.winner for p in preferences}
    for comparison in made:
        assert {text[0] for text in comparison.criteria} == {comparison.label}
        flipped = comparison.label != winner[comparison.preference_id]
        assert comparison.direction == ("reverse" if flipped else "original")
        assert comparison.id == f"{comparison.preference_id}|{comparison.direction}|{comparison.noise}"


def test_add_avoids_the_topics_of_the_side_not_shown() -> None:
    pool = CriteriaPool([("of winner", ["topic 0"]), ("of loser", ["topic 3"])])
    preference = vote(0, "a", 1, 1)
    gained = {
        direction: set(c.criteria) - {"a0-0", "b0-0"}
        for direction in ("original", "reverse")
        for c in make_comparisons([preference], direction=direction, noise="add", pool=pool, seed=0, epoch=0)[0]
    }
    assert gained == {"original": {"of winner"}, "reverse": {"of loser"}}


@given(votes, st.sampled_from(DIRECTIONS))
def test_the_blind_control_sees_the_same_rows_and_labels_but_one_generic_criterion(preferences, direction) -> None:
    settings_ = {"direction": direction, "pool": POOL, "seed": 5, "epoch": 2}
    seeing, _ = make_comparisons(preferences, noise="none", **settings_)
    blind, _ = make_comparisons(preferences, noise="replace", criteria_mode="none", **settings_)
    assert [(c.id, c.label) for c in blind] == [(c.id, c.label) for c in seeing]
    assert all(c.criteria == (GENERIC_CRITERION,) for c in blind)


def test_votes_without_criteria_are_compared_in_the_original_direction_only() -> None:
    rows = with_generic_criterion([vote(0, "a", 0, 0), vote(1, "b", 0, 0), vote(2, "tie", 0, 0)])
    assert [(row.criteria_a, row.criteria_b) for row in rows] == [
        ((GENERIC_CRITERION,), ()),
        ((), (GENERIC_CRITERION,)),
        ((GENERIC_CRITERION,), (GENERIC_CRITERION,)),
    ]
    for direction, labels in (("original", "ab"), ("reverse", ""), ("random", "ab"), ("both", "ab")):
        made, _ = make_comparisons(rows, direction=direction, noise="none", pool=None, seed=1, epoch=0)
        assert "".join(row.label for row in made) == labels
    soft, _ = make_comparisons(rows, direction="random", noise="none", pool=None, seed=1, epoch=0, ties="soft")
    assert [row.label for row in soft] == ["a", "b", "tie"]


@given(votes, st.sampled_from(["none", "remove", "replace"]))
def test_both_is_original_and_reverse_side_by_side(preferences, noise) -> None:
    def rows(direction: str):
        settings_ = {"noise": noise, "pool": POOL, "seed": 3, "epoch": 1}
        return make_comparisons(preferences, direction=direction, **settings_)[0]

    both = rows("both")
    assert [c for c in both if c.direction == "original"] == rows("original")
    assert [c for c in both if c.direction == "reverse"] == rows("reverse")
    order = [p.id for p in preferences]
    assert [order.index(c.preference_id) for c in both] == sorted(order.index(c.preference_id) for c in both)


def test_random_draws_both_sides_evenly_and_anew_in_each_epoch() -> None:
    votes = [vote(i, "a") for i in range(2000)]
    first = [choose_side(v, "random", seed=1, epoch=0) for v in votes]
    second = [choose_side(v, "random", seed=1, epoch=1) for v in votes]
    other_seed = [choose_side(v, "random", seed=2, epoch=0) for v in votes]
    # Five standard deviations of a fair coin over 2000 draws are 112.
    assert abs(first.count("a") - 1000) < 112
    assert abs(sum(x == y for x, y in zip(first, second, strict=True)) - 1000) < 112
    assert abs(sum(x == y for x, y in zip(first, other_seed, strict=True)) - 1000) < 112
    assert [choose_side(v, "random", seed=1, epoch=0) for v in reversed(votes)] == first[::-1]


def test_a_side_without_criteria() -> None:
    blank = vote(0, "a", n_a=0)
    assert choose_side(blank, "original", seed=0, epoch=0) is None
    assert choose_side(blank, "reverse", seed=0, epoch=0) == "b"
    assert {choose_side(blank, "random", seed=0, epoch=e) for e in range(20)} == {"b"}
    assert choose_side(vote(0, "a", 0, 0), "random", seed=0, epoch=0) is None


def test_ties_are_dropped_unless_soft_and_then_keep_two_opposite_sides() -> None:
    ties = [vote(i, "tie") for i in range(400)]
    for direction in ("original", "reverse", "random"):
        assert choose_side(ties[0], direction, seed=0, epoch=0) is None
    original = [choose_side(v, "original", seed=0, epoch=0, ties="soft") for v in ties]
    reverse = [choose_side(v, "reverse", seed=0, epoch=0, ties="soft") for v in ties]
    assert {(x, y) for x, y in zip(original, reverse, strict=True)} == {("a", "b"), ("b", "a")}
    assert original == [nominal_winner(v, seed=0, epoch=0, ties="soft") for v in ties]


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    ("a", "b", "reverse"), [("Short", " short", 0), ("Short;Kind", "kind;SHORT", 0), ("Short", "Short;Kind", 1)]
)
def test_the_same_criteria_on_both_sides_have_no_reverse(direction: str, a: str, b: str, reverse: int) -> None:
    """D- would say that the user of D+ prefers the other response."""
    sides = {"criteria_a": tuple(a.split(";")), "criteria_b": tuple(b.split(";"))}
    rows = [replace(vote(n, "a"), **sides) for n in range(20)]
    made, counts = make_comparisons(rows, direction=direction, noise="none", pool=None, seed=0, epoch=0)
    assert {row.label for row in made} <= ({"a", "b"} if reverse else {"a"})
    left_out = 0 if reverse else {"reverse": 20, "both": 20}.get(direction, 0)
    assert counts.get("same_criteria", 0) == left_out
    assert len(made) == (40 if direction == "both" else 20) - left_out
    ties = [replace(row, winner="tie") for row in rows]
    soft, _ = make_comparisons(ties, direction="reverse", noise="none", pool=None, seed=0, epoch=0, ties="soft")
    assert len(soft) == 20


BASES = ["D", "T", "C", "C_axes"]
VOTES = {"D": [vote(i, "ab"[i % 2]) for i in range(20)] + [vote(20, "tie")], "T": []}
TRAINED = [replace(vote(i, "a"), prompt=say(f"user: trained {i}")) for i in range(100, 110)]
SPLITS = Splits(TRAINED, [], VOTES, {})


def test_names_by_hand() -> None:
    assert parse_suite("D+", BASES) == ("D", "original", "none")
    assert parse_suite("D-_replace", BASES) == ("D", "reverse", "replace")
    assert parse_suite("C_axes+", BASES) == ("C_axes", "original", "none")
    assert suite_names(["D", "T"], ["none", "add"]) == ["D+", "D-", "D+_add", "D-_add", "T+", "T-", "T+_add", "T-_add"]


def test_a_suite_is_drawn_once_and_a_reversed_one_swaps_every_label() -> None:
    plus, minus = (fixed_suites([name], SPLITS)[name][0] for name in ("D+", "D-"))
    assert [c.label for c in plus] == ["ab"[i % 2] for i in range(20)]
    assert [c.label for c in minus] == ["ba"[i % 2] for i in range(20)]
    assert [c.preference_id for c in plus] == [c.preference_id for c in minus]
    assert fixed_suites(["D-_random"], SPLITS) == fixed_suites(["D-_random"], SPLITS)


def test_suites_are_drawn_from_the_data_alone() -> None:
    drawn: Any = {"pool": CriteriaPool.from_preferences(TRAINED), "seed": 42, "epoch": 0}
    for name, direction, noise in (("D-_random", "reverse", "random"), ("D+_add", "original", "add")):
        expected = make_comparisons(VOTES["D"], direction=direction, noise=noise, **drawn)
        assert fixed_suites([name], SPLITS)[name] == expected
    blind, _ = fixed_suites(["D-_random"], SPLITS, criteria_mode="none")["D-_random"]
    assert {row.criteria for row in blind} == {(GENERIC_CRITERION,)} and len(blind) == 20


TOPICS = [f"topic {i}" for i in range(6)]
TURN = (Message("user", "q"),)
OF_TOPICS = CriteriaPool([(f"pool {i}", (TOPICS[i % 6],)) for i in range(60)])

own = st.lists(
    st.sampled_from([f"own {i}" for i in range(70)] + ["pool 0"]), min_size=1, max_size=MAX_CRITERIA, unique=True
)
losers = st.lists(st.sampled_from([f"loser {i}" for i in range(10)] + ["own 0", "OWN  1"]), max_size=8, unique=True)
topics = st.lists(st.sampled_from(TOPICS), max_size=6, unique=True)
draws = st.fixed_dictionaries({"seed": st.integers(), "epoch": st.integers(0, 5), "sample_id": st.text()})


def noised(criteria: list[str], kind: str, loser: list[str], loser_topics: list[str], **draw: object):
    draw = {"seed": 0, "epoch": 0, "sample_id": "p", "pool": OF_TOPICS, **draw}
    name = draw.pop("sample_id")
    preference = Preference(name, TURN, TURN, TURN, "a", criteria, loser, criteria_topics_b=loser_topics)
    found = add_noise(preference, "a", kind=kind, **draw)
    mirrored = Preference(name, TURN, TURN, TURN, "a", loser, criteria, criteria_topics_a=loser_topics)
    assert add_noise(mirrored, "b", kind=kind, **draw) == found
    return found


@given(own, st.sampled_from(NOISES), losers, topics, draws)
def test_for_every_n_never_empty_pure_and_honest(criteria, kind, loser, loser_topics, draw) -> None:
    found, applied = noised(criteria, kind, loser, loser_topics, **draw)
    assert noised(criteria, kind, loser, loser_topics, **draw) == (found, applied)
    assert 1 <= len(found) <= MAX_CRITERIA
    assert len(set(found)) == len(found)
    changed = set(found) != set(criteria)
    assert (applied != "none") == changed
    assert applied in ({"none", kind} if kind != "random" else OPERATIONS)
    assert changed or found == tuple(criteria)


@given(own, losers, topics, draws)
def test_add_keeps_all_and_takes_half_as_many_of_foreign_topics(criteria, loser, loser_topics, draw) -> None:
    found, _ = noised(criteria, "add", loser, loser_topics, **draw)
    gained = set(found) - set(criteria)
    assert set(criteria) <= set(found)
    assert all(TOPICS[int(text.split()[1]) % 6] not in loser_topics for text in gained)
    available = 10 * (6 - len(loser_topics)) - ("pool 0" in criteria and TOPICS[0] not in loser_topics)
    assert len(gained) == min(max(1, len(criteria) // 2), MAX_CRITERIA - len(criteria), available)


@pytest.mark.parametrize(
    ("kind", "n", "gained", "lost"),
    [("replace", *row) for row in ((1, 0, 0), (2, 1, 0), (3, 1, 1), (4, 1, 1), (5, 2, 2), (8, 3, 3))]
    + [("remove", n, 0, lost) for n, lost in ((1, 0), (2, 1), (3, 1), (4, 2), (5, 2))],
)
def test_replace_and_remove_by_hand(kind: str, n: int, gained: int, lost: int) -> None:
    found, applied = noised([f"own {i}" for i in range(n)], kind, [f"loser {i}" for i in range(9)], [])
    assert sum(text.startswith("loser") for text in found) == gained
    assert sum(text.startswith("own") for text in found) == n - lost
    assert applied == (kind if gained or lost else "none")


def test_add_repeats_nothing_that_either_side_says() -> None:
    pool = CriteriaPool([(text, ["t"]) for text in ("Own 0", "loser 0", "new")])
    for i in range(20):
        assert sorted(noised(["own 0"], "add", ["loser 0"], [], seed=i, pool=pool)[0]) == ["new", "own 0"]


def test_impossible_operations_say_none() -> None:
    same = (("own 0", "own 1"), "none")
    assert noised(["own 0", "own 1"], "replace", [], []) == same
    assert noised(["own 0", "own 1"], "replace", ["Own 0"], []) == same
    assert noised(["own 0", "own 1"], "add", [], TOPICS) == same


def test_random_is_each_operation_a_quarter_of_the_time_and_changes_with_the_epoch() -> None:
    criteria, loser = [f"own {i}" for i in range(4)], ["loser 0", "loser 1"]
    by_epoch = [
        [noised(criteria, "random", loser, [], epoch=epoch, sample_id=str(i))[1] for i in range(2000)]
        for epoch in (0, 1)
    ]
    for operation, count in Counter(by_epoch[0]).items():
        assert operation in OPERATIONS
        assert abs(count - 500) < 97  # five standard deviations of 2000 draws at one quarter
    agree = sum(x == y for x, y in zip(*by_epoch, strict=True))
    assert abs(agree - 500) < 97


def test_pool_draw_is_uniform_over_the_texts_that_are_left() -> None:
    pool = CriteriaPool([("x1", ["x"]), ("x2", ["x"]), ("y1", ["y"]), ("z1", ["z"]), ("both", ["x"]), ("both", ["y"])])
    counts: Counter[str] = Counter()
    for i in range(3000):
        counts.update(pool.draw(1, without_topics=["y"], without=["X1"], rng=random.Random(i)))
    assert set(counts) == {"x2", "z1"}  # "both" also belongs to y
    assert abs(counts["x2"] - 1500) < 137
    assert sorted(pool.draw(9, without_topics=[], without=[], rng=random.Random(0))) == ["both", "x1", "x2", "y1", "z1"]


def test_pool_from_preferences_pairs_topics_and_leaves_criteria_without_one_out() -> None:
    paired = Preference(
        "1", TURN, TURN, TURN, "a", ("c1", "c2"), ("c3",), criteria_topics_a=("s", "t"), criteria_topics_b=("u",)
    )
    loose = Preference("2", TURN, TURN, TURN, "a", ("c4", "c5", "c6"), ("c7",), criteria_topics_a=("s", "v"))
    pool = CriteriaPool.from_preferences([paired, loose])
    left = pool.draw(9, without_topics=["s"], without=[], rng=random.Random(0))
    assert sorted(left) == ["c2", "c3"]  # c4 to c6 might each be of topic s, and c7 is of none
