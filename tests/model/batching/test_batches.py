"""Padded batches: tensors by hand, and a score that depends on nothing but its own comparison."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch

from crm.model.batching.batches import collate
from crm.model.encoding import EncodedComparison, Segment
from crm.model.heads import HEADS, LINEAR_HEADS, head_named
from crm.schema import Comparison, Message

ROW = Comparison("c", "p", ("x",), *[(Message("user", "x"),)] * 3, "a")


def scalar_like(first: list[int], second: list[int], order: str = "ab", target: float = 1.0) -> EncodedComparison:
    sequences = tuple((Segment("criteria", (ids[0],)), Segment("query", tuple(ids[1:]))) for ids in (first, second))
    return EncodedComparison(ROW, order, sequences, ((0, len(first) - 1), (1, len(second) - 1)), target)  # type: ignore[arg-type]


def test_tensors_by_hand_and_equal_sequences_read_once() -> None:
    batch = collate([scalar_like([5, 6], [5, 6, 7]), scalar_like([5, 6, 7], [8, 9], "ba", 0.5)], pad_id=3)
    pad = [3] * 13
    assert batch.input_ids.tolist() == [[5, 6, 3, *pad], [5, 6, 7, *pad], [8, 9, 3, *pad]]
    assert batch.attention_mask.tolist() == [[1, 1, 0, *[0] * 13], [1, 1, 1, *[0] * 13], [1, 1, 0, *[0] * 13]]
    assert batch.rows.tolist() == [[0, 1], [1, 2]]
    assert batch.positions.tolist() == [[1, 2], [2, 1]]
    assert batch.target.tolist() == [1.0, 0.5] and batch.sign.tolist() == [1.0, -1.0]
    assert len(batch) == 2
    assert {batch.input_ids.dtype, batch.rows.dtype, batch.positions.dtype} == {torch.int64}


@pytest.mark.parametrize(("length", "width"), [(1, 16), (16, 16), (17, 32)])
def test_width_is_the_next_multiple(length: int, width: int) -> None:
    assert collate([scalar_like([5] * length, [6])], pad_id=0).input_ids.shape == (2, width)


def test_both_orders_of_a_scalar_comparison_are_read_once(make_encoder, comparisons) -> None:
    pair = [make_encoder("scalar").encode(comparisons[0], order) for order in ("ab", "ba")]
    batch = collate(pair, pad_id=0)
    assert batch.input_ids.shape[0] == 2
    assert batch.rows.tolist() == [[0, 1], [1, 0]] and batch.sign.tolist() == [1.0, -1.0]


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("head", LINEAR_HEADS)
def test_scores_do_not_depend_on_padding_or_batch_mates(make_encoder, make_model, comparisons, head) -> None:
    model = make_model(head)
    if head == "pairwise":
        assert not torch.equal(model.score.weight[0], model.score.weight[1])
    encoded = [make_encoder(head).encode(row) for row in comparisons]
    with torch.no_grad():
        together = model(collate(encoded, pad_id=0)).preference_logit
        alone = torch.cat([model(collate([row], pad_id=0)).preference_logit for row in encoded])
        other_pad = model(collate(encoded[::-1], pad_id=9)).preference_logit.flip(0)
    assert alone.std() > 1e-3, "the model tells rows apart"
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)
    torch.testing.assert_close(other_pad, alone, rtol=0, atol=1e-12)


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("head", HEADS)
def test_50_batches_leave_each_row_as_it_is_alone_and_orders_opposite(
    make_model, make_encoder, comparisons, many, head
) -> None:
    words, model, encoder = random.Random(0), make_model(head, "llama"), make_encoder(head)
    rows = [replace(row, id=f"c{n}") for n, row in enumerate((*comparisons, *many)) if row.response_a != row.response_b]
    turned = {"ab": "ba", "ba": "ab"}

    def read(asked: list[tuple[Comparison, str]], pad_id: int) -> torch.Tensor:
        with torch.no_grad():
            return model(collate([encoder.encode(*pair) for pair in asked], pad_id)).preference_logit

    alone = {(row.id, order): read([(row, order)], 0) for row in rows for order in turned}
    for _ in range(50):
        asked = [(row, words.choice(("ab", "ba"))) for row in words.sample(rows, words.randint(1, 9))]
        both = read([*asked, *((row, turned[order]) for row, order in asked)], words.randrange(300))
        expected = torch.cat([alone[row.id, order] for row, order in asked])
        torch.testing.assert_close(both[: len(asked)], expected, rtol=0, atol=1e-12)
        if not head_named(head).joint:
            assert torch.equal(both[: len(asked)], -both[len(asked) :]), "to the last bit"
    assert torch.cat(list(alone.values())).std() > 1e-3, "the model tells rows apart"
