"""Who is held out, and where each row goes, by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from crm.dataset.prepare.place import check_topics, draw_topics, only_criteria, parts_of, who_speaks
from crm.schema import Message, Preference


def row(criteria: str = "", topics: str = "", **changes: object) -> Preference:
    say = (Message("assistant", "x"),)
    facts = {
        "criteria_a": tuple(criteria.split()),
        "criteria_topics_a": tuple(topics.split()),
        "criteria_b": ("other",),
        "criteria_topics_b": ("Z",),
    }
    return Preference("1", (Message("user", "q"),), say, say, "a", **{**facts, **changes})  # type: ignore[arg-type]


def test_drawn_topics_depend_on_names_and_seed_and_leave_enough_to_train_on() -> None:
    counts = Counter(dict.fromkeys("ABCDEFGHIJ", 10))
    two = draw_topics(counts, 2, seed=1)
    assert len(two) == 2
    assert two == draw_topics(Counter(dict(reversed(counts.items()))), 2, seed=1)
    more = counts + Counter(dict.fromkeys("KLMN", 1))
    assert set(two) <= set(draw_topics(more, 14, seed=1)), "those that were first stay among the first"
    assert len({draw_topics(counts, 2, seed) for seed in range(20)}) > 5
    assert draw_topics(counts, 0, seed=1) == ()
    assert len(draw_topics(Counter("ABCD"), 2, seed=1)) == 0, "each of four has more than a fifth of the rows"
    assert len(draw_topics(counts, 10, seed=1)) == 7, "three are left"


def test_a_large_topic_and_what_belongs_to_none_are_never_drawn() -> None:
    counts = Counter({"large": 60, "Other": 1, "Outliers": 1, **dict.fromkeys("ABCDEF", 6)})
    for seed in range(30):
        assert not {"large", "Other", "Outliers"} & set(draw_topics(counts, 4, seed))


def test_named_topics_must_exist() -> None:
    assert check_topics("field", ["A"], ["A", "B"]) == ("A",)
    with pytest.raises(ValueError, match=r"split\.x: no row has 'C'; there are A; B"):
        check_topics("split.x", ["C"], ["A", "B"])


def test_criteria_are_kept_by_their_own_topic() -> None:
    kept = only_criteria(row("one two three", "X Y X"), lambda topic: topic == "X")
    assert (kept.criteria_a, kept.criteria_topics_a) == (("one", "three"), ("X", "X"))
    assert kept.criteria_b == ()


def test_where_topics_do_not_pair_up_all_of_them_must_be_wanted() -> None:
    assert only_criteria(row("one two three", "X Y"), lambda topic: topic == "X").criteria_a == ()
    assert only_criteria(row("one two three", "X Y"), lambda topic: topic in "XY").criteria_a == ("one", "two", "three")


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("train", [("train", ("one",), ("other",))]),
        ("validation", [("validation", ("one",), ("other",))]),
        ("unseen_topics", [("T", ("one",), ("other",))]),
        ("test", [("D", ("one",), ("other",)), ("C", ("two",), ())]),
        ("unseen_criteria", [("C", ("two",), ())]),
        ("left_out", []),
    ],
)
def test_held_out_criteria_are_asked_for_in_c_only(part: str, expected: object) -> None:
    placed = parts_of(row("one two", "X Y"), part, {"Y"})
    assert [(name, as_placed.criteria_a, as_placed.criteria_b) for name, as_placed in placed] == expected


def test_a_test_row_without_held_out_criteria_is_not_in_c() -> None:
    assert [name for name, _ in parts_of(row("one", "X"), "test", {"Y"})] == ["D"]
    assert [name for name, _ in parts_of(row("one", "X"), "test", ())] == ["D"]


@pytest.mark.parametrize(
    ("criteria", "topics", "unseen", "expected"),
    [("one two", "X Y", "Y", "seen"), ("one", "Y", "YZ", "unseen"), ("one", "X", "", "seen")],
)
def test_who_speaks(criteria: str, topics: str, unseen: str, expected: str) -> None:
    assert who_speaks(row(criteria, topics), set(unseen)) == expected
    assert who_speaks(row(criteria_b=(), criteria_topics_b=()), set(unseen)) == "none"
