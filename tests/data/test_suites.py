from dataclasses import replace

import pytest

from crm.data.comparisons import SuiteSpec, draw_suite, fixed_suites, parse_suite, suite_names
from crm.data.noise import CriteriaPool
from crm.data.splits import Splits
from crm.schema import GENERIC_CRITERION, Message, Preference

BASES = ["D", "T", "C", "C_axes"]


def vote(i: int, winner: str) -> Preference:
    turn = (Message("user", f"q{i}"),)
    return Preference(
        f"p{i}", turn, turn, turn, winner, ("a1", "a2", "a3"), ("b1", "b2"), None, ("s", "s", "s"), ("t", "t")
    )


VOTES = {"D": [vote(i, "ab"[i % 2]) for i in range(20)] + [vote(20, "tie")], "T": []}
POOL = CriteriaPool([("elsewhere 1", ["u"]), ("elsewhere 2", ["v"])])


def test_names_by_hand() -> None:
    assert parse_suite("D+", BASES) == SuiteSpec("D+", "D", "original", "none")
    assert parse_suite("D-_replace", BASES) == SuiteSpec("D-_replace", "D", "reverse", "replace")
    assert parse_suite("C_axes+", BASES) == SuiteSpec("C_axes+", "C_axes", "original", "none")
    assert suite_names(["D", "T"], ["none", "add"]) == ["D+", "D-", "D+_add", "D-_add", "T+", "T-", "T+_add", "T-_add"]


@pytest.mark.parametrize(
    ("wrong", "near"), [("D", "D"), ("D-_replce", "D-_replace"), ("c_axes+", "C_axes+"), ("D+_none", "D")]
)
def test_a_wrong_name_is_answered_with_the_nearest(wrong: str, near: str) -> None:
    with pytest.raises(ValueError, match=rf"suite: '.*' is not a suite.*did you mean '{near}.*add, remove, replace"):
        parse_suite(wrong, BASES)


def test_a_suite_is_drawn_once_and_a_reversed_one_swaps_every_label() -> None:
    plus, minus = (draw_suite(name, VOTES, POOL, seed=1)[0] for name in ("D+", "D-"))
    assert [c.label for c in plus] == ["ab"[i % 2] for i in range(20)]
    assert [c.label for c in minus] == ["ba"[i % 2] for i in range(20)]
    assert [c.preference_id for c in plus] == [c.preference_id for c in minus]
    noised = draw_suite("D-_random", VOTES, POOL, seed=1)
    assert noised == draw_suite("D-_random", VOTES, POOL, seed=1)
    assert noised != draw_suite("D-_random", VOTES, POOL, seed=2)


def test_counts_are_returned() -> None:
    _, counts = draw_suite("D+_replace", VOTES, POOL, seed=0)
    assert counts == {
        "made": 20, "ties_dropped": 1, "without_criteria": 0, "direction_original": 20, "noise_replace": 20
    }  # fmt: skip
    assert draw_suite("T+", VOTES, POOL) == ([], {"made": 0, "ties_dropped": 0, "without_criteria": 0})


def test_suites_are_drawn_from_the_data_alone() -> None:
    trained = [replace(vote(i, "a"), prompt=(Message("user", f"trained {i}"),)) for i in range(100, 110)]
    splits, pool = Splits(trained, [], VOTES, {}), CriteriaPool.from_preferences(trained)
    for name in ("D-_random", "D+_add", "D-"):
        assert fixed_suites([name], splits)[name] == draw_suite(name, VOTES, pool, seed=42)
    blind, _ = fixed_suites(["D-_random"], splits, criteria_mode="none")["D-_random"]
    assert {row.criteria for row in blind} == {(GENERIC_CRITERION,)} and len(blind) == 20
