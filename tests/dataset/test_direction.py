import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crm.dataset.comparisons import choose_side, nominal_winner
from crm.schema import Message, Preference

fast = settings(derandomize=True, deadline=None)


def vote(
    winner: str, id_: str = "p", a: tuple[str, ...] = ("likes a",), b: tuple[str, ...] = ("likes b",)
) -> Preference:
    turn = (Message("user", "q"),)
    return Preference(id_, turn, turn, turn, winner, criteria_a=a, criteria_b=b)


@pytest.mark.parametrize(
    ("winner", "direction", "side"),
    [("a", "original", "a"), ("b", "original", "b"), ("a", "reverse", "b"), ("b", "reverse", "a")],
)
def test_table_by_hand(winner: str, direction: str, side: str) -> None:
    assert choose_side(vote(winner), direction, seed=0, epoch=0) == side


@fast
@given(st.sampled_from("ab"), st.text(), st.integers(), st.integers(0, 9))
def test_reversing_a_reversed_vote_is_the_original(winner: str, id_: str, seed: int, epoch: int) -> None:
    swapped = "b" if winner == "a" else "a"
    once = choose_side(vote(winner, id_), "original", seed=seed, epoch=epoch)
    twice = choose_side(vote(swapped, id_), "reverse", seed=seed, epoch=epoch)
    assert once == twice == winner


def test_random_draws_both_sides_evenly_and_anew_in_each_epoch() -> None:
    votes = [vote("a", f"p{i}") for i in range(2000)]
    first = [choose_side(v, "random", seed=1, epoch=0) for v in votes]
    second = [choose_side(v, "random", seed=1, epoch=1) for v in votes]
    other_seed = [choose_side(v, "random", seed=2, epoch=0) for v in votes]
    # Five standard deviations of a fair coin over 2000 draws are 112.
    assert abs(first.count("a") - 1000) < 112
    assert abs(sum(x == y for x, y in zip(first, second, strict=True)) - 1000) < 112
    assert abs(sum(x == y for x, y in zip(first, other_seed, strict=True)) - 1000) < 112
    assert [choose_side(v, "random", seed=1, epoch=0) for v in reversed(votes)] == first[::-1]


def test_a_side_without_criteria() -> None:
    blank = vote("a", a=())
    assert choose_side(blank, "original", seed=0, epoch=0) is None
    assert choose_side(blank, "reverse", seed=0, epoch=0) == "b"
    assert {choose_side(blank, "random", seed=0, epoch=e) for e in range(20)} == {"b"}
    assert choose_side(vote("a", a=(), b=()), "random", seed=0, epoch=0) is None


def test_ties_are_dropped_unless_soft_and_then_keep_two_opposite_sides() -> None:
    ties = [vote("tie", f"p{i}") for i in range(400)]
    for direction in ("original", "reverse", "random"):
        assert choose_side(ties[0], direction, seed=0, epoch=0) is None
    original = [choose_side(v, "original", seed=0, epoch=0, ties="soft") for v in ties]
    reverse = [choose_side(v, "reverse", seed=0, epoch=0, ties="soft") for v in ties]
    assert {(x, y) for x, y in zip(original, reverse, strict=True)} == {("a", "b"), ("b", "a")}
    assert original == [nominal_winner(v, seed=0, epoch=0, ties="soft") for v in ties]


def test_unknown_names_are_refused_even_for_rows_that_would_be_dropped() -> None:
    with pytest.raises(ValueError, match=r"direction: 'sideways'.*original, reverse, random"):
        choose_side(vote("tie"), "sideways", seed=0, epoch=0)
    with pytest.raises(ValueError, match=r"ties: 'half'.*drop, soft"):
        choose_side(vote("a"), "original", seed=0, epoch=0, ties="half")
