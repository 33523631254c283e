import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crm.dataset.noise import NOISES, CriteriaPool
from crm.dataset.suites import SuiteSpec, build_suite, draw_suite, parse_suite, suite_names
from crm.schema import Message, Preference

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


@settings(derandomize=True, deadline=None)
@given(st.lists(st.text("ab_+-", min_size=1, max_size=4), min_size=1, max_size=4, unique=True))
def test_every_name_that_is_offered_parses_to_one_of_the_bases(bases: list[str]) -> None:
    for name in suite_names(bases, NOISES):
        spec = parse_suite(name, bases)
        assert spec.name == name
        assert spec.base in bases
        sign = "+" if spec.direction == "original" else "-"
        assert name == spec.base + sign + ("" if spec.noise == "none" else "_" + spec.noise)


@pytest.mark.parametrize(
    ("wrong", "near"), [("D", "D"), ("D-_replce", "D-_replace"), ("c_axes+", "C_axes+"), ("D+_none", "D")]
)
def test_a_wrong_name_is_answered_with_the_nearest(wrong: str, near: str) -> None:
    with pytest.raises(ValueError, match=rf"suite: '.*' is not a suite.*did you mean '{near}.*add, remove, replace"):
        parse_suite(wrong, BASES)


def test_a_suite_is_drawn_once_and_a_reversed_one_swaps_every_label() -> None:
    plus, minus = (build_suite(name, VOTES, POOL, seed=1) for name in ("D+", "D-"))
    assert [c.label for c in plus] == ["ab"[i % 2] for i in range(20)]
    assert [c.label for c in minus] == ["ba"[i % 2] for i in range(20)]
    assert [c.preference_id for c in plus] == [c.preference_id for c in minus]
    noised = build_suite("D-_random", VOTES, POOL, seed=1)
    assert noised == build_suite("D-_random", VOTES, POOL, seed=1)
    assert noised != build_suite("D-_random", VOTES, POOL, seed=2)


def test_counts_are_returned_and_shown(caplog: pytest.LogCaptureFixture) -> None:
    _, counts = draw_suite("D+_replace", VOTES, POOL, seed=0)
    assert counts == {
        "made": 20, "ties_dropped": 1, "without_criteria": 0, "direction_original": 20, "noise_replace": 20
    }  # fmt: skip
    with caplog.at_level(logging.INFO):
        assert build_suite("T+", VOTES, POOL, seed=0) == []
        build_suite("D+", VOTES, POOL, seed=0)
    assert "suite T+: made 0" in caplog.text
    assert "suite D+: made 20, ties_dropped 1" in caplog.text
