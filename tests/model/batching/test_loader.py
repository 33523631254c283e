"""Loaders: what an epoch holds, where a run goes on after a kill, and what several ranks read."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crm.dataset.comparisons import make_comparisons
from crm.model.batching.loader import EvaluationLoader, TrainLoader
from crm.model.batching.plans import Packing, draw_order, plan_epoch
from crm.model.reward_model import preference_loss
from crm.schema import Message

fast = settings(derandomize=True, deadline=None, max_examples=25)


@pytest.fixture(scope="module")
def make_loader(make_encoder, many):
    def make(batch_size: int = 4, seed: int = 1, rows: Any = None, max_length: int = 2048, **ranks: int) -> TrainLoader:
        chosen = many if rows is None else rows
        encoder = make_encoder("pairwise_span", max_length)
        return TrainLoader(lambda epoch: chosen, encoder, batch_size=batch_size, pad_id=0, seed=seed, **ranks)

    return make


@pytest.fixture(scope="module")
def names(tokenizer):
    """Which queries a batch holds, read back from its token ids."""

    def read(batch: Any) -> list[str]:
        texts = tokenizer.batch_decode(batch.input_ids[batch.rows[:, 0]])
        return [re.search(r"q\d+(?=;)", text).group() for text in texts]  # type: ignore[union-attr]

    return read


def same(first: Any, second: Any) -> bool:
    tensors = {name: value for name, value in vars(first).items() if isinstance(value, torch.Tensor)}
    return first.weight == second.weight and all(
        torch.equal(value, getattr(second, name)) for name, value in tensors.items()
    )


def test_every_row_once_an_epoch_in_batches_of_the_size(make_loader, names) -> None:
    loader = make_loader(batch_size=5)
    for _ in range(3):
        batches = list(loader)
        assert Counter(name for batch in batches for name in names(batch)) == Counter(f"q{i}" for i in range(24))
        assert sorted(map(len, batches)) == [4, 5, 5, 5, 5]


def test_an_epoch_depends_on_seed_and_epoch_alone(make_loader, names) -> None:
    first, again = make_loader(), make_loader()
    epochs = [list(first), list(first)]
    for epoch in epochs:
        assert all(same(a, b) for a, b in zip(epoch, again, strict=True))
    read = [[names(batch) for batch in epoch] for epoch in epochs]
    assert read[0] != read[1], "another epoch, another order"
    assert read[0] != [names(batch) for batch in make_loader(seed=2)]


def test_orders_are_a_fair_coin_of_seed_epoch_and_id() -> None:
    drawn = [draw_order(f"c{i}", seed=s, epoch=e) for i in range(200) for s in (0, 1) for e in (0, 1, 2)]
    assert abs(drawn.count("ab") / 1200 - 0.5) < 0.06  # four standard errors
    assert len({tuple(drawn[k::6]) for k in range(6)}) == 6, "each seed and epoch draws anew"


@fast
@given(position=st.integers(0, 19), batch_size=st.integers(1, 9))
def test_resuming_anywhere_gives_exactly_the_remaining_batches(make_loader, position: int, batch_size: int) -> None:
    loader, whole = make_loader(batch_size), make_loader(batch_size)
    expected = [*whole, *whole, *whole]
    states = [loader.state_dict()]
    for _ in range(3):
        states += [loader.state_dict() for _ in loader]
    at = position % (len(expected) + 1)
    resumed = make_loader(batch_size)
    resumed.load_state_dict(states[at])
    rest: list[Any] = []
    while len(rest) < len(expected) - at:
        rest += list(resumed)
    assert len(rest) == len(expected) - at
    assert all(same(a, b) for a, b in zip(rest, expected[at:], strict=True))


def test_a_position_of_another_plan_is_refused(make_loader) -> None:
    state = make_loader(batch_size=4, seed=1).state_dict()
    with pytest.raises(ValueError, match=r"seed=1, this run has 2"):
        make_loader(seed=2).load_state_dict(state)
    with pytest.raises(ValueError, match=r"global_batch=4, this run has 6"):
        make_loader(batch_size=6).load_state_dict(state)
    make_loader(batch_size=2, rank=1, world_size=2).load_state_dict(state)  # the same global batch on two ranks


def test_two_ranks_read_together_what_one_process_reads(make_loader, names) -> None:
    one = [names(batch) for batch in make_loader(batch_size=4)]
    ranks = [[names(batch) for batch in make_loader(batch_size=2, rank=rank, world_size=2)] for rank in (0, 1)]
    assert len(one) == len(ranks[0]) == len(ranks[1]) == 6
    for whole, left, right in zip(one, *ranks, strict=True):
        assert not set(left) & set(right) and sorted(whole) == sorted(left + right)


@pytest.mark.parametrize("size", [1, 2, 5, 16, 17, 23])
@pytest.mark.parametrize("passes", [1, 4])
@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_every_row_of_a_step_counts_the_same(make_loader, many, names, size, passes, world_size) -> None:
    """However few passes the last step has and however unevenly its rows are dealt out; the trainer takes the mean over
    passes and ranks, so that a row counts its batch's weight by the rows of that batch, passes and ranks."""
    loaders = [
        make_loader(2, rows=many[:size], rank=rank, world_size=world_size, passes=passes) for rank in range(world_size)
    ]
    ranks = [list(loader) for loader in loaders]
    assert len({len(batches) for batches in ranks}) == 1, "ranks stay in step"
    read: Counter[str] = Counter()
    for start in range(0, len(ranks[0]), passes):
        batches = [batch for own in ranks for batch in own[start : start + passes] if batch.weight]
        counts = [batch.weight / len(batch) / passes / world_size for batch in batches for _ in range(len(batch))]
        assert counts == pytest.approx([1 / len(counts)] * len(counts))
        read.update(name for batch in batches for name in names(batch))
    assert read == Counter(f"q{index}" for index in range(size)), "each row once"


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize("passes", [1, 4])
@pytest.mark.parametrize("size", [16, 7])
def test_the_gradient_of_a_step_is_that_of_its_rows_in_one_tree(
    make_model, make_loader, many, size, passes, world_size
) -> None:
    """16 rows are one pass of 16 or one of a step that could have 4; 7 do not deal out evenly."""
    model = make_model("pairwise_span")

    def gradient(batches: list[Any], means_over: int) -> torch.Tensor:
        model.zero_grad()
        for batch in batches:
            loss = preference_loss(model(batch).preference_logit, batch.target).mean()
            (loss * batch.weight / means_over).backward()
        return torch.cat([weight.grad.flatten() for weight in model.parameters() if weight.grad is not None])

    ranks = [
        make_loader(16 // world_size, rows=many[:size], rank=rank, world_size=world_size, passes=passes)
        for rank in range(world_size)
    ]
    rows = [row for batch in ranks[0].plan(0).batches for row in batch]
    whole = gradient([Packing(100_000).collate(rows)], 1)
    dealt = gradient([batch for own in ranks for batch in own], passes * world_size)
    assert dealt.norm().item() == pytest.approx(whole.norm().item(), rel=1e-4)
    assert torch.allclose(dealt, whole, atol=1e-5 * whole.norm().item())


def test_an_epoch_that_is_cut_weighs_its_last_step_by_what_is_left(make_encoder, many) -> None:
    """The second epoch has 7 batches of 2, of which 5 are read: 4 in a step, and 1 that counts for 4."""
    sizes = {0: 9, 1: 14}
    given = {"batch_size": 2, "pad_id": 0, "seed": 0, "passes": 4}
    loader = TrainLoader(lambda epoch: many[: sizes[epoch]], make_encoder("scalar"), **given)
    assert sum(1 for _ in loader) == 5
    assert [batch.weight for batch in loader] == [1.0, 1.0, 1.0, 1.0, 4.0]


def test_overlong_rows_are_counted_and_left_out(make_encoder, many) -> None:
    giant = replace(many[0], id="giant", prompt=(Message("user", "long " * 300),))
    plan = plan_epoch([*many, giant], make_encoder("scalar", 400), 4, seed=0, epoch=0)
    assert plan.overlong == 1 and plan.comparisons == 24
    assert "giant" not in {row.comparison.id for batch in plan.batches for row in batch}


def test_batches_hold_near_equal_lengths(make_encoder, many) -> None:
    plan = plan_epoch(many, make_encoder("pairwise"), 4, seed=0, epoch=0)
    spread = [max(row.lengths[0] for row in batch) - min(row.lengths[0] for row in batch) for batch in plan.batches]
    lengths = [row.lengths[0] for batch in plan.batches for row in batch]
    assert sum(spread) <= max(lengths) - min(lengths), "batches cut a sorted window, so their spreads do not overlap"


def test_evaluation_reads_each_row_on_one_rank(make_encoder, many, names) -> None:
    encoded = [make_encoder("pairwise").encode(row) for row in many[:23]]
    ranks = [EvaluationLoader(encoded, batch_size=4, pad_id=0, rank=rank, world_size=2) for rank in (0, 1)]
    assert [len(loader) for loader in ranks] == [3, 3]
    read = Counter(name for loader in ranks for batch in loader for name in names(batch))
    assert read == Counter(f"q{i}" for i in range(23))
    assert all(same(a, b) for a, b in zip(ranks[0], ranks[0], strict=True)), "the same batches each time"


@fast
@given(seed=st.integers(0, 99), batch_size=st.sampled_from([2, 4, 6]))
def test_both_directions_of_a_preference_share_order_and_batch(make_encoder, preferences, seed, batch_size) -> None:
    """What does not depend on the criteria then cancels within the batch, whatever the lengths."""
    settings_ = {"direction": "both", "noise": "none", "pool": None, "seed": seed, "epoch": 0}
    rows, _ = make_comparisons(preferences, **settings_)
    plan = plan_epoch(rows, make_encoder("scalar"), batch_size, seed=seed, epoch=0)
    assert plan.comparisons == len(rows) == 18
    for batch in plan.batches:
        read = Counter((row.comparison.preference_id, row.order) for row in batch)
        assert set(read.values()) == {2}
        assert sum(row.target for row in batch) == len(batch) / 2


def test_epochs_are_never_longer_than_the_first(make_encoder, many) -> None:
    """Rows that only fit in a later epoch must not leave a remainder that passes for an epoch of its own."""
    sizes = {0: 9, 1: 14, 2: 5}
    encoder = make_encoder("pairwise_span")
    loader = TrainLoader(lambda epoch: many[: sizes[epoch]], encoder, batch_size=2, pad_id=0, seed=0)
    assert [sum(1 for _ in loader) for _ in range(3)] == [5, 5, 3]
    assert loader.state_dict()["epoch"] == 3
