"""Which topics are held out, and where each row goes, by hand."""

from collections import Counter

import pytest

from crm.data.config import DataConfig
from crm.prepare.config import SplitConfig
from crm.prepare.split import divide, draw_topics, place
from crm.schema import Message, Preference


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


def test_criteria_are_divided_by_their_own_topic_or_where_unpaired_by_all() -> None:
    other, held_out = divide(row("one two three", "X Y X"), {"X"})
    assert (held_out.criteria_a, held_out.criteria_topics_a, held_out.criteria_b) == (("one", "three"), ("X", "X"), ())
    assert (other.criteria_a, other.criteria_topics_a, other.criteria_b) == (("two",), ("Y",), ("other",))
    assert [side.criteria_a for side in divide(row("one two three", "X Y"), {"X"})] == [(), ()]
    rest, all_held_out = divide(row("one two three", "X Y"), {"X", "Y"})
    assert (rest.criteria_a, all_held_out.criteria_a) == ((), ("one", "two", "three"))
    assert divide(row("one two", "X Y"), ())[0] == row("one two", "X Y")


def test_held_out_criteria_are_in_c_only() -> None:
    rows = [
        row("one two", "X Y", id=f"{n}", prompt=(Message("user", f"{n * 7} {word * 9}"),), topic="T" if n < 5 else "t")
        for n, word in enumerate("abcdefghijklmnopqrstuvwxyz")
    ]
    leaked = {rows[20].query}
    data, chosen = DataConfig(test_fraction=0.4), SplitConfig(held_out_topics=["T"], held_out_criteria=["Y"])
    placed = place(rows, chosen, data, leaked_queries=leaked)
    criteria = {part: {(own.criteria_a, own.criteria_b) for own in found} for part, found in placed.parts.items()}
    assert criteria.pop("C") == {(("two",), ())}
    assert set(map(frozenset, criteria.values())) == {frozenset({(("one",), ("other",))})}
    assert [own.id for own in placed.parts["T"]] == [own.id for own in rows[:5]]
    assert [own.id for own in placed.parts["C"]] == [own.id for own in placed.parts["D"]]
    assert "20" not in {own.id for part in ("train", "validation") for own in placed.parts[part]}
    again = row("one two", "X Y", id="again", prompt=(Message("user", rows[0].query.upper()),), topic="t")
    beside = place([*rows, again], chosen, data)
    assert beside.counts["left_out"] == 1 and "again" not in {own.id for part in beside.parts.values() for own in part}
    everything = place(rows, chosen, data, all_test=True)
    assert everything.parts["D"] == rows and everything.counts["test"] == 26


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


def test_nothing_left_to_train_on() -> None:
    rows = [row("one", "X", id=str(n), topic="only") for n in range(3)]
    with pytest.raises(ValueError, match="split: no row is left to train on, of 3 rows with 1 different prompts in 1"):
        place(rows, SplitConfig(held_out_topics=["only"]), DataConfig())
