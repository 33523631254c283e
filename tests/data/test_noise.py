import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crm.data.noise import NOISES, OPERATIONS, CriteriaPool, Noised, add_noise
from crm.schema import MAX_CRITERIA, Message, Preference

TOPICS = [f"topic {i}" for i in range(6)]
TURN = (Message("user", "q"),)
POOL = CriteriaPool([(f"pool {i}", (TOPICS[i % 6],)) for i in range(60)])

own = st.lists(
    st.sampled_from([f"own {i}" for i in range(70)] + ["pool 0"]), min_size=1, max_size=MAX_CRITERIA, unique=True
)
losers = st.lists(st.sampled_from([f"loser {i}" for i in range(10)] + ["own 0", "OWN  1"]), max_size=8, unique=True)
topics = st.lists(st.sampled_from(TOPICS), max_size=6, unique=True)
draws = st.fixed_dictionaries({"seed": st.integers(), "epoch": st.integers(0, 5), "sample_id": st.text()})


def noised(criteria: list[str], kind: str, loser: list[str], loser_topics: list[str], **draw: object) -> Noised:
    draw = {"seed": 0, "epoch": 0, "sample_id": "p", "pool": POOL, **draw}
    name = draw.pop("sample_id")
    preference = Preference(name, TURN, TURN, TURN, "a", criteria, loser, criteria_topics_b=loser_topics)
    found = add_noise(preference, "a", kind=kind, **draw)
    mirrored = Preference(name, TURN, TURN, TURN, "a", loser, criteria, criteria_topics_a=loser_topics)
    assert add_noise(mirrored, "b", kind=kind, **draw) == found
    return found


@given(own, st.sampled_from(NOISES), losers, topics, draws)
def test_for_every_n_never_empty_pure_and_honest(criteria, kind, loser, loser_topics, draw) -> None:
    result = noised(criteria, kind, loser, loser_topics, **draw)
    assert noised(criteria, kind, loser, loser_topics, **draw) == result
    assert 1 <= len(result.criteria) <= MAX_CRITERIA
    assert len(set(result.criteria)) == len(result.criteria)
    changed = set(result.criteria) != set(criteria)
    assert (result.applied != "none") == changed
    assert result.applied in ({"none", kind} if kind != "random" else OPERATIONS)
    assert changed or result.criteria == tuple(criteria)


@given(own, losers, topics, draws)
def test_add_keeps_all_and_takes_half_as_many_of_foreign_topics(criteria, loser, loser_topics, draw) -> None:
    result = noised(criteria, "add", loser, loser_topics, **draw)
    gained = set(result.criteria) - set(criteria)
    assert set(criteria) <= set(result.criteria)
    assert all(TOPICS[int(text.split()[1]) % 6] not in loser_topics for text in gained)
    available = 10 * (6 - len(loser_topics)) - ("pool 0" in criteria and TOPICS[0] not in loser_topics)
    assert len(gained) == min(max(1, len(criteria) // 2), MAX_CRITERIA - len(criteria), available)


@pytest.mark.parametrize(
    ("kind", "n", "gained", "lost"),
    [("replace", *row) for row in ((1, 0, 0), (2, 1, 0), (3, 1, 1), (4, 1, 1), (5, 2, 2), (8, 3, 3))]
    + [("remove", n, 0, lost) for n, lost in ((1, 0), (2, 1), (3, 1), (4, 2), (5, 2))],
)
def test_replace_and_remove_by_hand(kind: str, n: int, gained: int, lost: int) -> None:
    result = noised([f"own {i}" for i in range(n)], kind, [f"loser {i}" for i in range(9)], [])
    assert sum(text.startswith("loser") for text in result.criteria) == gained
    assert sum(text.startswith("own") for text in result.criteria) == n - lost
    assert result.applied == (kind if gained or lost else "none")


def test_add_repeats_nothing_that_either_side_says() -> None:
    pool = CriteriaPool([(text, ["t"]) for text in ("Own 0", "loser 0", "new")])
    for i in range(20):
        assert sorted(noised(["own 0"], "add", ["loser 0"], [], seed=i, pool=pool).criteria) == ["new", "own 0"]


def test_impossible_operations_say_none() -> None:
    same = Noised(("own 0", "own 1"), "none")
    assert noised(["own 0", "own 1"], "replace", [], []) == same
    assert noised(["own 0", "own 1"], "replace", ["Own 0"], []) == same
    assert noised(["own 0", "own 1"], "add", [], TOPICS) == same


def test_random_is_each_operation_a_quarter_of_the_time_and_changes_with_the_epoch() -> None:
    criteria, loser = [f"own {i}" for i in range(4)], ["loser 0", "loser 1"]
    by_epoch = [
        [noised(criteria, "random", loser, [], epoch=epoch, sample_id=str(i)).applied for i in range(2000)]
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
