"""Packed rows: reads, tree_masks and counts by hand, and against a dense mask made another way."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from crm.model.batching.forest_batches import ForestBatch, collate_forest
from crm.model.batching.tree_mask import TreeMask
from crm.model.encoding import EncodedComparison, Segment
from crm.model.heads import HEADS
from crm.schema import Comparison, Message

ROW = Comparison("c", "p", ("x",), *[(Message("user", "x"),)] * 3, "a")
LONG = tuple(range(10, 20))


def scalar_like(first: tuple[int, ...], second: tuple[int, ...]) -> EncodedComparison:
    sequences = tuple((Segment("criteria", ids),) for ids in (first, second))
    return EncodedComparison(ROW, "ba", sequences, ((0, len(first) - 1), (1, len(second) - 1)), 0.5)


def dense(batch: ForestBatch, tree_mask: TreeMask) -> Tensor:
    """(queries, N) bool: who sees whom, put together from the spans."""
    rows = []
    for span in tree_mask.spans:
        for count in span.seen:
            row = torch.zeros(batch.input_ids.shape[1], dtype=torch.bool)
            row[span.keys[:count]] = True
            rows.append(row)
    return torch.stack(rows)


def test_a_batch_by_hand() -> None:
    batch = collate_forest([scalar_like((*LONG, 1), (*LONG, 2, 3)), scalar_like((*LONG, 2, 3), (7,))], share=True)
    assert batch.input_ids.tolist() == [[7, *LONG, 1, 2, 3]]
    assert batch.position_ids.tolist() == [[0, *range(10), 10, 10, 11]]
    assert batch.read_tokens.tolist() == [0, 11, 13] and batch.reads.tolist() == [[1, 2], [2, 0]]
    assert batch.target.tolist() == [0.5, 0.5] and batch.sign.tolist() == [-1.0, -1.0] and len(batch) == 2
    assert batch.tokens == 14 and batch.pairs == 1 + 55 + 11 + (11 + 12) and batch.weight == 1.0
    assert torch.equal(dense(batch, batch.read_mask), dense(batch, batch.tree_mask)[batch.read_tokens])


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("head", HEADS)
def test_tokens_see_exactly_the_beginning_of_their_sequence(make_encoder, comparisons, head, share) -> None:
    rows = [*comparisons, *(replace(row, criteria=(*row.criteria, "And rhymes")) for row in comparisons)]
    encoded = [make_encoder(head).encode(row, order) for row in rows for order in ("ab", "ba")]
    batch = collate_forest(encoded, share=share)
    seen, ids, positions = dense(batch, batch.tree_mask), batch.input_ids[0], batch.position_ids[0]
    assert torch.equal(seen.sum(dim=1), positions + 1)
    assert batch.pairs == int(seen.sum())
    flat = {tuple(token for part in sequence for token in part.ids) for row in encoded for sequence in row.sequences}
    beginnings = {sequence[:end] for sequence in flat for end in range(1, len(sequence) + 1)}
    pasts = []
    for row in seen:
        keys = torch.nonzero(row).flatten()
        pasts.append(tuple(ids[keys[positions[keys].argsort()]].tolist()))
    assert set(pasts) == beginnings and (share or len(pasts) == sum(map(len, flat)))
    assert torch.equal(dense(batch, batch.read_mask), seen[batch.read_tokens])
    for row, (first, second) in zip(encoded, batch.reads.tolist(), strict=True):
        for (sequence, position), read in zip(row.reads, (first, second), strict=True):
            whole = tuple(token for part in row.sequences[sequence] for token in part.ids)
            assert pasts[int(batch.read_tokens[read])] == whole[: position + 1]


def test_a_row_that_is_filled_up_says_the_same_of_its_sequences() -> None:
    rows = [scalar_like((*LONG, 1), (*LONG, 2, 3)), scalar_like((*LONG, 2, 3), (7,))]
    plain, filled = (collate_forest(rows, share=True, multiple=multiple) for multiple in (1, 16))
    assert filled.input_ids.shape == filled.position_ids.shape == (1, 16) and filled.tokens == plain.tokens == 14
    assert filled.pairs == plain.pairs and filled.reads.tolist() == plain.reads.tolist()
    assert torch.equal(filled.input_ids[:, :14], plain.input_ids) and filled.input_ids[0, 14:].tolist() == [0, 0]
    seen = dense(filled, filled.tree_mask)
    assert torch.equal(seen[:14, :14], dense(plain, plain.tree_mask))
    assert not seen[:14, 14:].any() and not seen[14:, :14].any()
