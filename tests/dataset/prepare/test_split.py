"""Which topics are held out, and where each row goes, by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from crm.dataset.config import DataConfig
from crm.dataset.prepare.config import SplitConfig
from crm.dataset.prepare.split import draw_topics, only_criteria, parts_of, place, who_speaks
from crm.schema import Message, Preference
from crm.votes.simulation.arena import simulate


def row(criteria: str = "", topics: str = "", **changes: object) -> Preference:
    say = (Message("assistant", "x"),)
    facts = {
        "id": "1",
        "prompt": (Message("user", "q"),),
        "criteria_a": tuple(criteria.split()),
        "criteria_topics_a": tuple(topics.split()),
        "criteria_b": ("other",),
        "criteria_topics_b": ("Z",),
    }
    return Preference(response_a=say, response_b=say, winner="a", **{**facts, **changes})  # type: ignore[arg-type]


def test_drawn_topics_depend_on_names_and_seed_and_leave_enough_to_train_on() -> None:
    counts = Counter(dict.fromkeys("ABCDEFGHIJ", 10))
    two = draw_topics(counts, 2, seed=1)
    assert len(two) == 2
    assert two == draw_topics(Counter(dict(reversed(counts.items()))), 2, seed=1)
    assert set(two) <= set(draw_topics(counts + Counter(dict.fromkeys("KLMN", 1)), 14, seed=1))
    assert len({draw_topics(counts, 2, seed) for seed in range(20)}) > 5
    assert len(draw_topics(counts, 10, seed=1)) == 7, "three are left"
    assert draw_topics(Counter("ABCD"), 2, seed=1) == (), "each of four has more than a fifth of the rows"
    assert "Other" not in draw_topics(Counter({"Other": 1, **dict.fromkeys("ABCDEF", 6)}), 7, seed=1)


def test_criteria_are_kept_by_their_own_topic_or_where_unpaired_by_all() -> None:
    kept = only_criteria(row("one two three", "X Y X"), lambda topic: topic == "X")
    assert (kept.criteria_a, kept.criteria_topics_a, kept.criteria_b) == (("one", "three"), ("X", "X"), ())
    assert only_criteria(row("one two three", "X Y"), lambda topic: topic == "X").criteria_a == ()
    assert only_criteria(row("one two three", "X Y"), lambda topic: topic in "XY").criteria_a == ("one", "two", "three")


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("train", [("train", ("one",), ("other",))]),
        ("unseen_topics", [("T", ("one",), ("other",))]),
        ("test", [("D", ("one",), ("other",)), ("C", ("two",), ())]),
        ("unseen_criteria", [("C", ("two",), ())]),
        ("left_out", []),
        ("leaked", []),
    ],
)
def test_held_out_criteria_are_in_c_only(part: str, expected: object) -> None:
    placed = parts_of(row("one two", "X Y"), part, {"Y"})
    assert [(name, as_placed.criteria_a, as_placed.criteria_b) for name, as_placed in placed] == expected
    assert [name for name, _ in parts_of(row("one", "X"), "test", {"Y"})] == ["D"]


@pytest.mark.parametrize(
    ("criteria", "topics", "unseen", "expected"),
    [("one two", "X Y", "Y", "seen"), ("one", "Y", "YZ", "unseen"), ("one", "X", "", "seen")],
)
def test_who_speaks(criteria: str, topics: str, unseen: str, expected: str) -> None:
    assert who_speaks(row(criteria, topics), set(unseen)) == expected
    assert who_speaks(row(criteria_b=(), criteria_topics_b=()), set(unseen)) == "none"


def test_prompts_about_which_only_held_out_criteria_speak_are_suite_c() -> None:
    """Two users with prompts of their own, as in sets of personas; one of them is held out."""
    rows = [
        row(user, user, id=f"{user}-{word}", prompt=(Message("user", f"{user} asks about {word * 9}"),), criteria_b=())
        for user in ("anna", "boris")
        for word in "abcdefghijklmnopqrstuvwxyz"
    ]
    placed = place(rows, SplitConfig(unseen_topics=0, held_out_criteria=["boris"]), DataConfig())
    assert {row.id for row in placed.parts["C"]} == {row.id for row in rows[26:]}
    assert sum(len(placed.parts[part]) for part in ("train", "validation", "D")) == 26


def test_votes_that_are_added_move_no_old_one() -> None:
    rows = simulate(seed=3, train=300, validation=0, suite=0).train
    chosen, data = SplitConfig(held_out_topics=["Gaming & Virtual Worlds"], unseen_criteria=0), DataConfig()

    def home(some: list[Preference]) -> dict[str, str]:
        return {row.id: part for part, own in place(some, chosen, data).parts.items() for row in own}

    old, new = home(rows[150:]), home(rows)
    moved = [name for name, part in old.items() if new[name] != part]
    assert len(moved) <= 0.02 * len(old), "only those whose group of near-duplicates has grown"


def test_nothing_left_to_train_on() -> None:
    rows = [row("one", "X", id=str(n), topic="only") for n in range(3)]
    with pytest.raises(ValueError, match="split: no row is left to train on, of 3 rows with 1 different prompts in 1"):
        place(rows, SplitConfig(held_out_topics=["only"]), DataConfig())
