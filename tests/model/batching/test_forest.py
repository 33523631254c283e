"""Forests by hand, and against a set of prefixes: nothing is lost or laid out twice, tokens see their own past."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crm.model.batching import forest
from crm.model.batching.forest import Forest, common_prefix, grow_forest, unique_tokens

few_tokens = st.lists(st.integers(0, 2), min_size=1, max_size=9).map(tuple)
sequences_of_few_tokens = st.lists(few_tokens, min_size=1, max_size=9)


def read_back(grown: Forest, sequence: int, length: int) -> list[int]:
    return [grown.ids[grown.locate(sequence, position)] for position in range(length)]


def test_a_forest_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forest, "MIN_SHARED", 1)
    grown = grow_forest([(5, 6, 7, 8), (5, 6, 7, 9, 9), (4,), (5, 6, 7)])
    assert grown.ids == [4, 5, 6, 7, 8, 9, 9]
    assert grown.positions == [0, 0, 1, 2, 3, 3, 4]
    assert [(node.start, node.length, node.depth, node.path) for node in grown.nodes] == [
        (0, 1, 0, (0,)),
        (1, 3, 0, (1,)),
        (4, 1, 3, (1, 2)),
        (5, 2, 3, (1, 3)),
    ]
    assert grown.leaf_of == [2, 3, 0, 1], "a sequence that is the beginning of others ends in their parent"
    assert [grown.locate(1, position) for position in (0, 2, 3, 4)] == [1, 3, 5, 6]


def test_a_short_common_run_is_not_worth_a_node() -> None:
    one, other = (1,) * (forest.MIN_SHARED - 1), (1,) * forest.MIN_SHARED
    assert len(grow_forest([(*one, 2), (*one, 3)]).nodes) == 2
    assert len(grow_forest([(*other, 2), (*other, 3)]).nodes) == 3


@settings(derandomize=True, deadline=None, max_examples=300)
@given(sequences=sequences_of_few_tokens, least=st.integers(1, 4))
def test_every_sequence_is_read_back_and_its_path_is_its_past(sequences: list[tuple[int, ...]], least: int) -> None:
    kept, forest.MIN_SHARED = forest.MIN_SHARED, least
    try:
        grown = grow_forest(sequences)
    finally:
        forest.MIN_SHARED = kept
    for index, sequence in enumerate(sequences):
        assert read_back(grown, index, len(sequence)) == list(sequence)
        path = grown.nodes[grown.leaf_of[index]].path
        assert sum(grown.nodes[node].length for node in path) == len(sequence), "no token of another sequence is seen"
        places = [grown.locate(index, position) for position in range(len(sequence))]
        assert [grown.positions[place] for place in places] == list(range(len(sequence)))
    assert sum(node.length for node in grown.nodes) == len(grown.ids) == len(grown.positions)
    if least == 1:
        prefixes = {sequence[:end] for sequence in sequences for end in range(1, len(sequence) + 1)}
        assert len(grown.ids) == unique_tokens(sequences) == len(prefixes)


def test_unique_tokens_are_the_distinct_beginnings() -> None:
    draw = random.Random(0)
    sequences = [tuple(draw.randrange(3) for _ in range(draw.randint(1, 30))) for _ in range(200)]
    prefixes = {sequence[:end] for sequence in sequences for end in range(1, len(sequence) + 1)}
    assert unique_tokens(sequences) == len(prefixes)
    assert common_prefix((1, 2, 3), (1, 2)) == 2 and common_prefix((1,), (2,)) == 0


def test_deep_forests_do_not_exhaust_the_stack() -> None:
    """As deep as sequences that each go a little further than the last: 400 nested beginnings."""
    long = tuple(range(10 * 400))
    grown = grow_forest([long[: 10 * depth] for depth in range(1, 401)])
    assert len(grown.ids) == 4000 and len(grown.nodes) == 400
