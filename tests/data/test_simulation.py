"""Votes follow the true utilities but for noise, nothing but the criteria tells who won, and held out means absent."""

import re
import statistics
from collections import Counter
from functools import cache

import pytest

from crm.data.simulation import lexicon
from crm.data.simulation.arena import lexicon_texts, simulate
from crm.data.simulation.lexicon import AXES, TOPICS, Query, Response, levels_of, pole_of, queries, wordings, write
from crm.data.splits import Splits
from crm.schema import Preference

SEED = 11
SHORT = "S"
"""The suite of answers of one sentence, which no author wrote."""
AXIS_NAMES = list(lexicon.AXIS)


@pytest.fixture(scope="module")
def arena() -> Splits:
    return simulate(seed=SEED, train=3000, validation=300, suite=500)


def splits(arena: Splits) -> dict[str, list[Preference]]:
    return {"train": arena.train, "validation": arena.validation, **arena.suites}


@cache
def asked() -> dict[str, Query]:
    return {query.text: query for topic in TOPICS for query in queries(topic.name, "votes")}


def written(preference: Preference) -> tuple[Response, Response]:
    """Both responses written anew, with their levels."""
    query = asked()[preference.query]
    return write(SEED, str(preference.author_a), query), write(SEED, str(preference.author_b), query)


def gap_by_hand(criteria: tuple[str, ...], first: Response, second: Response) -> int:
    """Utility of A minus utility of B, from the text of the criteria and the levels."""
    total = 0
    for text in criteria:
        pole = lexicon.pole_of(text)
        assert pole is not None, text
        axis, sign = pole
        total += sign * first.levels[axis] - sign * second.levels[axis]
    return total


def readings(preferences: list[Preference]) -> list[tuple[Preference, str, int]]:
    """(preference, side, utility gap in favour of that side) for both sides of every preference."""
    rows = []
    for preference in preferences:
        first, second = written(preference)
        assert (first.text, second.text) == (preference.response_a[0].content, preference.response_b[0].content)
        rows.append((preference, "a", gap_by_hand(preference.criteria_a, first, second)))
        rows.append((preference, "b", -gap_by_hand(preference.criteria_b, first, second)))
    return rows


@pytest.mark.parametrize("suite", ["D", "T", "C", "C_axes"])
def test_a_perfect_judge_reaches_the_noise_ceiling_on_every_suite_in_both_directions(arena: Splits, suite: str) -> None:
    """Standard error of 400 readings at 97.5 % is 0.8 %."""
    rows = [row for row in readings(arena.suites[suite][:420]) if row[0].winner != "tie"]
    for original in (True, False):
        right = [gap > 0 for preference, side, gap in rows if (side == preference.winner) == original]
        assert sum(right) / len(right) > 0.95


def test_ties_are_a_few_percent_and_indifferent(arena: Splits) -> None:
    for name, preferences in splits(arena).items():
        if name != SHORT:
            ties = [row for row in preferences if row.winner == "tie" and row.author_a]
            assert 0.015 <= len(ties) / len(preferences) <= 0.075
            assert all(gap == 0 and row.criteria_a and row.criteria_b for row, _, gap in readings(ties))


def test_without_criteria_nothing_tells_the_winner(arena: Splits) -> None:
    decided = [row for row in arena.train if row.winner != "tie"]
    longer = [len(row.response_a[0].content) > len(row.response_b[0].content) for row in decided]
    first = [row.winner == "a" for row in decided]
    assert statistics.mean(first) == pytest.approx(0.5, abs=0.03)
    same = [one == other for one, other in zip(longer, first, strict=True)]
    assert statistics.mean(same) == pytest.approx(0.5, abs=0.03)
    # The best fixed ranking of authors, fitted on one half and tried on the other, knows nothing either.
    half = len(decided) // 2
    wins: Counter[str] = Counter()
    for row in decided[:half]:
        wins[str(row.author_a if row.winner == "a" else row.author_b)] += 1
        wins[str(row.author_b if row.winner == "a" else row.author_a)] -= 1
    hits = [(wins[str(row.author_a)] > wins[str(row.author_b)]) == (row.winner == "a") for row in decided[half:]]
    assert sum(hits) / len(hits) == pytest.approx(0.5, abs=0.04)


def test_same_seed_same_arena_and_sizes_do_not_disturb_each_other() -> None:
    one = simulate(seed=3, train=40, validation=9, suite=6)
    assert one == simulate(seed=3, train=40, validation=9, suite=6)
    assert simulate(seed=3, train=25, validation=0, suite=0).train == one.train[:25]
    assert one.train != simulate(seed=4, train=40, validation=9, suite=6).train


def bodies(arena: Splits, name: str) -> set[str]:
    rows = splits(arena)[name]
    return {text.lower().partition(" ")[2] for row in rows for text in row.criteria_a + row.criteria_b}


def test_held_out_topics_wordings_and_axes_are_absent_from_training(arena: Splits) -> None:
    seen_bodies = bodies(arena, "train") | bodies(arena, "validation")
    seen_topics = {row.topic for row in arena.train + arena.validation}
    assert seen_topics == set(lexicon.TRAIN_TOPICS) == {row.topic for row in arena.suites["C"] + arena.suites["D"]}
    assert {row.topic for row in arena.suites["T"]} == set(lexicon.HELD_OUT_TOPICS)
    assert bodies(arena, "D") | bodies(arena, "T") <= seen_bodies
    assert not bodies(arena, "C") & seen_bodies
    assert not bodies(arena, "C_axes") & seen_bodies
    axes_of = {
        name: {lexicon.AXIS[axis].topic for axis in names}
        for name, names in (("seen", lexicon.TRAIN_AXES), ("unseen", lexicon.HELD_OUT_AXES))
    }
    for name, rows in splits(arena).items():
        shown = {topic for row in rows for topic in row.criteria_topics_a + row.criteria_topics_b}
        expected = {"Level of detail"} if name == SHORT else axes_of["unseen" if name == "C_axes" else "seen"]
        assert shown == expected, name


def test_short_answers_are_a_third_of_the_usual_and_the_chosen_ones_are_concise(arena: Splits) -> None:
    def mean_length(rows: list[Preference]) -> float:
        return sum(len(row.response_a[0].content + row.response_b[0].content) for row in rows) / (2 * len(rows))

    rows = arena.suites[SHORT]
    assert mean_length(rows) <= mean_length(arena.suites["D"]) / 3
    detail: Counter[int] = Counter()
    for row in rows:
        sides = ((row.response_a, row.criteria_a), (row.response_b, row.criteria_b))
        (concise, wants_less), (longer, wants_more) = sides if row.winner == "a" else sides[::-1]
        texts = concise[0].content, longer[0].content
        assert len(texts[0]) < len(texts[1]) and not any("\n" in text or ". " in text for text in texts)
        assert [lexicon.pole_of(text) for text in (*wants_less, *wants_more)] == [("detail", -1), ("detail", 1)]
        levels = [dict(levels_of(text) or ()) for text in texts]
        assert levels[0] == dict.fromkeys(AXIS_NAMES, 0) | {"detail": -1} and levels[1]["detail"] >= 0
        detail[levels[1]["detail"]] += 1
    assert detail[0] > 100 and detail[1] > 100
    assert 0.4 < sum(row.winner == "a" for row in rows) / len(rows) < 0.6


def test_lexicon_shows_nothing_that_is_held_out() -> None:
    texts = list(lexicon_texts(1, responses=400))
    together = "\n".join(texts).lower()
    for axis in AXIS_NAMES:
        for sign in (1, -1):
            assert not any(wording.lower() in texts for wording in lexicon.wordings(axis, sign, "held_out"))
    for name in lexicon.HELD_OUT_TOPICS:
        assert not any(re.search(rf"\b{subject}\b", together) for subject in lexicon.TOPIC[name].subjects)
    assert {"Prefers detailed", "prefers concise"} <= set(texts)


def test_impossible_sizes_are_refused_by_name() -> None:
    with pytest.raises(
        ValueError, match=r"data=simulation: needs 8892 different queries on 'Creative.*, which has \d+"
    ):
        simulate(seed=0, train=0, validation=0, suite=20_000)


POLES = [(axis.name, sign) for axis in AXES for sign in (1, -1)]


@pytest.mark.parametrize(("axis", "sign"), POLES)
def test_every_wording_leads_back_to_its_pole(axis: str, sign: int) -> None:
    for kind in ("train", "held_out"):
        for wording in wordings(axis, sign, kind):
            assert pole_of(wording) == pole_of(f"  {wording.upper()}. ") == (axis, sign)
            assert 2 <= len(wording.split()) <= 9


def test_queries_are_all_different_short_and_never_shared_with_banks() -> None:
    votes = [query.text for topic in TOPICS for query in queries(topic.name, "votes")]
    banks = [query.text for topic in TOPICS for query in queries(topic.name, "bank")]
    assert len(set(votes + banks)) == len(votes) + len(banks)
    lengths = sorted(len(text.split()) for text in votes)
    assert 8 <= statistics.median(lengths) <= 12
    assert lengths[-1] <= 16
