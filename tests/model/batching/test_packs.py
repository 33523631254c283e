"""Packs: all rows, near-equal work, equal weights, epochs made of them; rows of tokens by hand and by a dense mask."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from crm.model.batching.batches import ForestBatch, collate_forest
from crm.model.batching.loader import EvaluationLoader, TrainLoader
from crm.model.batching.plans import (
    Packing,
    deal,
    draw_steps,
    fill,
    packing_named,
    passes_needed,
    plan_packed_epoch,
    spread,
)
from crm.model.batching.tree_mask import TreeMask
from crm.model.encoding import EncodedComparison, Segment
from crm.model.heads import LINEAR_HEADS
from crm.schema import Comparison, Message

fast = settings(derandomize=True, deadline=None, max_examples=30)
TREE = Packing(10_000)
ROW = Comparison("c", "p", ("x",), *[(Message("user", "x"),)] * 3, "a")
LONG = tuple(range(10, 20))


@pytest.fixture(scope="module")
def encoded(make_encoder, many) -> list[Any]:
    return [make_encoder("scalar").encode(row) for row in many]


def ids(rows: Any) -> list[str]:
    return [row.comparison.id for row in rows]


@fast
@given(count=st.integers(1, 24), bins=st.integers(1, 7), tokens=st.sampled_from([1, 300, 10_000]))
def test_every_row_is_dealt_out_once_and_weights_even_out(encoded, count: int, bins: int, tokens: int) -> None:
    units = [encoded[at : at + 3] for at in range(0, count, 3)]
    packs = spread([[row for row in unit if row in encoded[:count]] for unit in units], bins, Packing(tokens))
    assert len(packs) == bins and all(pack.rows for pack in packs)
    read = [pack for pack in packs if pack.weight]
    assert sorted(name for pack in read for name in ids(pack.rows)) == sorted(ids(encoded[:count]))
    assert len(read) == min(bins, count), "no pack stands idle while another has two rows"
    # The mean over packs of weight times mean loss is the mean loss: with a loss of 1 a row it is 1.
    assert sum(pack.weight for pack in packs) / bins == pytest.approx(1)
    assert all(pack.weight == pytest.approx(len(pack.rows) * bins / count) for pack in read)


def test_packs_have_near_equal_work(encoded) -> None:
    packs = spread([[row] for row in encoded], 4, TREE)
    work = [TREE.work(pack.rows) for pack in packs]
    assert max(work) - min(work) <= max(TREE.work([row]) for row in encoded)


def test_units_stay_whole_unless_they_are_too_large(encoded) -> None:
    units = [encoded[:12], encoded[12:]]
    assert sorted(len(pack.rows) for pack in spread(units, 2, TREE)) == [12, 12]
    work = TREE.work(encoded[:12])
    cut = spread(units, 4, Packing(work - 1))
    assert max(Packing(1).work(pack.rows) for pack in cut) < work


@fast
@given(tokens=st.integers(1, 4000))
def test_filled_packs_hold_all_rows_and_no_more_than_they_may(encoded, tokens: int) -> None:
    packing = Packing(tokens)
    packs = fill(encoded, packing)
    assert sorted(name for rows in packs for name in ids(rows)) == sorted(ids(encoded))
    assert all(packing.work(rows) <= tokens or len(rows) == 1 for rows in packs)
    pairs = pairwise(packs)
    alone = [(sum(packing.work([row]) for row in one), packing.work(other[:1])) for one, other in pairs]
    assert all(filled + further > tokens for filled, further in alone), "none could be fuller"


def test_rows_of_one_prompt_stay_together(make_encoder, many) -> None:
    mixed = [replace(row, id=f"{row.id} {kind}", criteria=(kind,)) for kind in ("x", "y") for row in many[:6]]
    rows = [make_encoder("scalar").encode(row) for row in mixed]
    single = max(TREE.work([row]) for row in rows)
    for pack in fill(rows, Packing(2 * single)):
        assert len(Counter(row.comparison.cluster for row in pack)) == len(pack) // 2


def test_work_is_what_the_batch_computes_up_to_short_runs(encoded) -> None:
    distinct = {
        tuple(token for part in sequence for token in part.ids) for row in encoded for sequence in row.sequences
    }
    assert TREE.work(encoded) <= TREE.collate(encoded).tokens < sum(map(len, distinct))


def plan(rows: Any, encoder: Any, packing: Packing, **changes: int) -> Any:
    sizes = {"pairs": 8, "passes": 2, "world_size": 1, "seed": 0, "epoch": 0}
    return plan_packed_epoch(rows, encoder, packing, **{**sizes, **changes})


def test_steps_have_the_pairs_asked_for_and_a_fixed_number_of_passes(make_encoder, many) -> None:
    planned = plan(many[:21], make_encoder("pairwise"), TREE, passes=3, world_size=2)
    assert len(planned) == 9 and all(len(packs) == 2 for packs in planned.passes)
    steps = [planned.passes[at : at + 3] for at in (0, 3, 6)]
    rows = [sum(len(pack.rows) for packs in step for pack in packs if pack.weight) for step in steps]
    assert rows == [8, 8, 5] and planned.comparisons == 21


def test_an_epoch_of_packs_depends_on_seed_and_epoch_alone(make_encoder, many) -> None:
    encoder = make_encoder("scalar")
    read = [[ids(pack.rows) for packs in plan(many, encoder, TREE, epoch=e, seed=s).passes for pack in packs]
            for e, s in ((0, 0), (1, 0), (0, 1), (0, 0))]  # fmt: skip
    assert read[0] == read[3] and read[0] != read[1] and read[0] != read[2]


def test_later_epochs_of_uneven_preferences_have_the_steps_of_the_first_and_all_rows(make_encoder, many) -> None:
    rows = [replace(row, id=f"{row.id}-{n}", criteria=(f"{n}",))
            for index, row in enumerate(many) for n in range((1, 1, 2, 5, 7)[index % 5])]  # fmt: skip
    free = {len(plan(rows, make_encoder("scalar"), TREE, passes=1, pairs=6, epoch=epoch)) for epoch in range(5)}
    assert len(free) > 1, "left to themselves, epochs differ"
    settings = {"batch_size": 6, "pad_id": 0, "seed": 0, "packing": TREE, "passes": 2}
    loader = TrainLoader(lambda epoch: rows, make_encoder("scalar"), **settings)
    for epoch in range(5):
        planned = loader.plan(epoch)
        assert len(planned) == len(loader) and planned.comparisons == len(rows)
        steps = [[row for packs in planned.passes[at : at + 2] for row in packs[0].rows if packs[0].weight]
                 for at in range(0, len(planned), 2)]  # fmt: skip
        assert sorted(name for step in steps for name in ids(step)) == sorted(row.id for row in rows)
        assert all(steps), "no step without rows"
        preferences = [{row.comparison.preference_id for row in step} for step in steps]
        assert sum(map(len, preferences)) == len(many), "preferences stay whole"


def test_as_many_passes_as_hold_the_tokens(make_encoder, many) -> None:
    encoder, sizes = make_encoder("scalar"), {"pairs": 8, "seed": 0, "epoch": 0}
    work = max(TREE.work([row]) for row in map(encoder.encode, many))
    for world_size, tokens in ((1, 500), (2, 500), (1, work), (2, work), (1, work * 7 // 4)):
        packing = Packing(tokens)
        steps, _ = draw_steps(many, encoder, **sizes)
        passes = passes_needed(steps, packing, world_size)
        plans = [deal(steps, 0, packing, passes=n, world_size=world_size) for n in (passes, passes - 1) if n]
        packs = [[pack for own in planned.passes for pack in own if len(pack.rows) > 1] for planned in plans]
        most = [max((packing.work(pack.rows) for pack in dealt), default=0) for dealt in packs]
        assert most[0] <= tokens, "all fit"
        assert len(most) == 1 or tokens < most[1], "and in one pass less they would not"
    assert passes_needed(draw_steps(many, encoder, **sizes)[0], TREE, 1) == 1


@pytest.mark.parametrize(("world_size", "expected"), [(1, 8), (3, 3)])
def test_no_more_passes_than_rows(world_size: int, expected: int, make_encoder, many) -> None:
    """Comparisons longer than a pass may be: one each, and none is read only to fill a pass."""
    tight = Packing(10)
    steps, _ = draw_steps(many, make_encoder("scalar"), pairs=8, seed=0, epoch=0)
    assert passes_needed(steps, tight, world_size) == expected
    dealt = plan(many, make_encoder("scalar"), tight, passes=expected, world_size=world_size)
    assert max(len(pack.rows) for packs in dealt.passes for pack in packs) == 1


def test_a_resumed_loader_of_packs_goes_on_and_refuses_another_plan(make_encoder, many) -> None:
    def make(**changes: Any) -> TrainLoader:
        settings = {"batch_size": 8, "pad_id": 0, "seed": 1, "packing": TREE, "passes": 2, **changes}
        return TrainLoader(lambda epoch: many, make_encoder("scalar"), **settings)

    loader, whole = make(), make()
    expected = [batch.input_ids.tolist() for batch in [*whole, *whole]]
    assert len(loader) == 6 and len(expected) == 12
    states = [loader.state_dict() for _ in loader]
    resumed = make()
    resumed.load_state_dict(states[3])
    assert [batch.input_ids.tolist() for batch in [*resumed, *resumed]] == expected[4:]
    with pytest.raises(ValueError, match="passes=2"):
        make(passes=3).load_state_dict(states[3])
    padded = make(packing=None)
    with pytest.raises(ValueError, match="batching=padded, this run has tree"):
        make().load_state_dict(padded.state_dict())
    with pytest.raises(ValueError, match="batching=tree, this run has padded"):
        padded.load_state_dict(states[3])


def test_packed_evaluation_reads_each_row_on_one_rank(encoded) -> None:
    loaders = [
        EvaluationLoader(encoded[:23], batch_size=4, pad_id=0, rank=rank, world_size=3, packing=TREE)
        for rank in range(3)
    ]
    assert sum(len(batch) for loader in loaders for batch in loader) == 23


def test_packings_by_name() -> None:
    assert packing_named("padded", 5) is None and packing_named("tree", 5) == Packing(5)


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
    batch = collate_forest([scalar_like((*LONG, 1), (*LONG, 2, 3)), scalar_like((*LONG, 2, 3), (7,))])
    assert batch.input_ids.tolist() == [[7, *LONG, 1, 2, 3]]
    assert batch.position_ids.tolist() == [[0, *range(10), 10, 10, 11]]
    assert batch.read_tokens.tolist() == [0, 11, 13] and batch.reads.tolist() == [[1, 2], [2, 0]]
    assert batch.target.tolist() == [0.5, 0.5] and batch.sign.tolist() == [-1.0, -1.0] and len(batch) == 2
    assert batch.tokens == 14 and batch.pairs == 1 + 55 + 11 + (11 + 12) and batch.weight == 1.0
    assert torch.equal(dense(batch, batch.read_mask), dense(batch, batch.tree_mask)[batch.read_tokens])


@pytest.mark.parametrize("head", LINEAR_HEADS)
def test_tokens_see_exactly_the_beginning_of_their_sequence(make_encoder, comparisons, head) -> None:
    rows = [*comparisons, *(replace(row, criteria=(*row.criteria, "And rhymes")) for row in comparisons)]
    encoded = [make_encoder(head).encode(row, order) for row in rows for order in ("ab", "ba")]
    batch = collate_forest(encoded)
    seen, ids, positions = dense(batch, batch.tree_mask), batch.input_ids[0], batch.position_ids[0]
    assert torch.equal(seen.sum(dim=1), positions + 1)
    assert batch.pairs == int(seen.sum())
    flat = {tuple(token for part in sequence for token in part.ids) for row in encoded for sequence in row.sequences}
    beginnings = {sequence[:end] for sequence in flat for end in range(1, len(sequence) + 1)}
    pasts = []
    for row in seen:
        keys = torch.nonzero(row).flatten()
        pasts.append(tuple(ids[keys[positions[keys].argsort()]].tolist()))
    assert set(pasts) == beginnings
    assert torch.equal(dense(batch, batch.read_mask), seen[batch.read_tokens])
    for row, (first, second) in zip(encoded, batch.reads.tolist(), strict=True):
        for (sequence, position), read in zip(row.reads, (first, second), strict=True):
            whole = tuple(token for part in row.sequences[sequence] for token in part.ids)
            assert pasts[int(batch.read_tokens[read])] == whole[: position + 1]


def test_a_row_that_is_filled_up_says_the_same_of_its_sequences() -> None:
    rows = [scalar_like((*LONG, 1), (*LONG, 2, 3)), scalar_like((*LONG, 2, 3), (7,))]
    plain, filled = (collate_forest(rows, multiple=multiple) for multiple in (1, 16))
    assert filled.input_ids.shape == filled.position_ids.shape == (1, 16) and filled.tokens == plain.tokens == 14
    assert filled.pairs == plain.pairs and filled.reads.tolist() == plain.reads.tolist()
    assert torch.equal(filled.input_ids[:, :14], plain.input_ids) and filled.input_ids[0, 14:].tolist() == [0, 0]
    seen = dense(filled, filled.tree_mask)
    assert torch.equal(seen[:14, :14], dense(plain, plain.tree_mask))
    assert not seen[:14, 14:].any() and not seen[14:, :14].any()
