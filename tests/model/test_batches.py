"""Batches: tensors by hand, forests against dense masks, and a score that depends on its own comparison alone."""

import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from crm.model.batching import forest as forests
from crm.model.batching.batches import collate
from crm.model.batching.forest import common_prefix, grow_forest, unique_tokens
from crm.model.encoding import EncodedComparison
from crm.model.heads import HEADS, head_named
from crm.schema import Comparison, Message

ROW = Comparison("c", "p", ("x",), *[(Message("user", "x"),)] * 3, "a")
LONG = tuple(range(10, 20))
few_tokens = st.lists(st.integers(0, 2), min_size=1, max_size=9).map(tuple)


def scalar_like(first: Any, second: Any, order: str = "ab", target: float = 1.0) -> EncodedComparison:
    sequences = tuple((tuple(ids),) for ids in (first, second))
    return EncodedComparison(ROW, order, sequences, ((0, len(first) - 1), (1, len(second) - 1)), target)  # type: ignore[arg-type]


def test_padded_tensors_by_hand_and_equal_sequences_read_once() -> None:
    batch = collate([scalar_like([5, 6], [5, 6, 7]), scalar_like([5, 6, 7], [8, 9], "ba", 0.5)], pad_id=3)
    pad = [3] * 13
    assert batch.input_ids.tolist() == [[5, 6, 3, *pad], [5, 6, 7, *pad], [8, 9, 3, *pad]]
    assert batch.attention_mask.tolist() == [[1, 1, 0, *[0] * 13], [1, 1, 1, *[0] * 13], [1, 1, 0, *[0] * 13]]
    assert batch.rows.tolist() == [[0, 1], [1, 2]]
    assert batch.positions.tolist() == [[1, 2], [2, 1]]
    assert batch.target.tolist() == [1.0, 0.5] and batch.sign.tolist() == [1.0, -1.0]
    assert len(batch) == 2 and batch.tokens == 7
    widths = [collate([scalar_like([5] * length, [6])], pad_id=0).input_ids.shape[1] for length in (16, 17)]
    assert widths == [16, 32], "the next multiple"


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("head", HEADS)
def test_rows_are_the_same_in_any_batch_and_orders_opposite(make_model, make_encoder, comparisons, many, head) -> None:
    words, model, encoder = random.Random(0), make_model(head, "llama"), make_encoder(head)
    rows = [replace(row, id=f"c{n}") for n, row in enumerate((*comparisons, *many[:9]))]
    rows = [row for row in rows if row.response_a != row.response_b]
    turned = {"ab": "ba", "ba": "ab"}

    def read(asked: list[tuple[Comparison, str]], pad_id: int) -> torch.Tensor:
        with torch.no_grad():
            return model(collate([encoder.encode(*pair) for pair in asked], pad_id)).preference_logit

    alone = {(row.id, order): read([(row, order)], 0) for row in rows for order in turned}
    for _ in range(5):
        asked = [(row, words.choice(("ab", "ba"))) for row in words.sample(rows, words.randint(1, 9))]
        both = read([*asked, *((row, turned[order]) for row, order in asked)], words.randrange(300))
        expected = torch.cat([alone[row.id, order] for row, order in asked])
        torch.testing.assert_close(both[: len(asked)], expected, rtol=0, atol=1e-12)
        if not head_named(head).joint:
            assert torch.equal(both[: len(asked)], -both[len(asked) :]), "to the last bit"
    assert torch.cat(list(alone.values())).std() > 1e-3, "the model tells rows apart"


@given(sequences=st.lists(few_tokens, min_size=1, max_size=9), least=st.integers(1, 4))
def test_every_sequence_is_read_back_and_its_path_is_its_past(sequences: list[tuple[int, ...]], least: int) -> None:
    kept, forests.MIN_SHARED = forests.MIN_SHARED, least
    try:
        grown = grow_forest(sequences)
    finally:
        forests.MIN_SHARED = kept
    for index, sequence in enumerate(sequences):
        places = grown.places(grown.leaf_of[index], 0, len(sequence))
        assert [grown.ids[place] for place in places] == list(sequence)
        assert [grown.positions[place] for place in places] == list(range(len(sequence)))
        path = grown.nodes[grown.leaf_of[index]].path
        assert sum(grown.nodes[node].length for node in path) == len(sequence), "no token of another sequence is seen"
    assert sum(node.length for node in grown.nodes) == len(grown.ids) == len(grown.positions)
    prefixes = {sequence[:end] for sequence in sequences for end in range(1, len(sequence) + 1)}
    assert unique_tokens(sequences) == len(prefixes)
    assert least > 1 or len(grown.ids) == len(prefixes)
    assert common_prefix((1, 2, 3), (1, 2)) == 2 and common_prefix((1,), (2,)) == 0


def test_deep_forests_do_not_exhaust_the_stack() -> None:
    """As deep as sequences that each go a little further than the last: 400 nested beginnings."""
    long = tuple(range(10 * 400))
    grown = grow_forest([long[: 10 * depth] for depth in range(1, 401)])
    assert len(grown.ids) == 4000 and len(grown.nodes) == 400
