"""Loaders and plans: what an epoch holds, where a resumed run goes on, what several ranks read, packs of equal work."""

import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crm.data.comparisons import make_comparisons
from crm.model.batching.plans import (
    Packing,
    Padding,
    TrainLoader,
    ValidationLoader,
    draw_order,
    fill,
    packing_named,
    plan_epoch,
    spread,
)
from crm.model.encoding import token_ids

fast = settings(derandomize=True, deadline=None, max_examples=25)
TREE = Packing(10_000)


@pytest.fixture(scope="module")
def make_loader(make_encoder, many):
    def make(
        batch_size: int = 4, seed: int = 1, rows: Any = None, passes: int = 1, layout: Any = None, **ranks: int
    ) -> TrainLoader:
        """Steps of ``passes`` padded batches a rank, or as ``layout`` deals out a batch."""
        chosen, step = many if rows is None else rows, batch_size * passes * ranks.get("world_size", 1)
        layout, encoder = layout or Padding(batch_size, pad_id=0), make_encoder("pairwise_span")
        return TrainLoader(lambda epoch: (chosen, {}), encoder, layout, step=step, seed=seed, **ranks)

    return make


@pytest.fixture(scope="module")
def names(tokenizer):
    """Which queries a padded batch holds, read back from its token ids."""

    def read(batch: Any) -> list[str]:
        texts = tokenizer.batch_decode(batch.input_ids[batch.rows[:, 0]])
        return [re.search(r"q\d+(?=;)", text).group() for text in texts]  # type: ignore[union-attr]

    return read


@pytest.fixture(scope="module")
def encoded(make_encoder, many) -> list[Any]:
    return [make_encoder("scalar").encode(row) for row in many]


def ids(rows: Any) -> list[str]:
    return [row.comparison.id for row in rows]


def same(first: Any, second: Any) -> bool:
    tensors = {name: value for name, value in vars(first).items() if isinstance(value, torch.Tensor)}
    return first.weight == second.weight and all(
        torch.equal(value, getattr(second, name)) for name, value in tensors.items()
    )


def test_an_epoch_has_every_row_once_and_depends_on_seed_and_epoch_alone(make_loader, names) -> None:
    loader, again = make_loader(batch_size=5), make_loader(batch_size=5)
    epochs = [list(loader), list(loader)]
    for epoch in epochs:
        assert Counter(name for batch in epoch for name in names(batch)) == Counter(f"q{i}" for i in range(24))
        assert sorted(map(len, epoch)) == [4, 5, 5, 5, 5]
        assert all(same(a, b) for a, b in zip(epoch, again, strict=True))
    read = [[names(batch) for batch in epoch] for epoch in epochs]
    assert read[0] != read[1], "another epoch, another order"
    assert read[0] != [names(batch) for batch in make_loader(batch_size=5, seed=2)]


def test_orders_are_a_fair_coin_of_seed_epoch_and_id() -> None:
    drawn = [draw_order(f"c{i}", seed=s, epoch=e) for i in range(200) for s in (0, 1) for e in (0, 1, 2)]
    assert abs(drawn.count("ab") / 1200 - 0.5) < 0.06  # four standard errors
    assert len({tuple(drawn[k::6]) for k in range(6)}) == 6, "each seed and epoch draws anew"


@pytest.mark.parametrize("tokens", [0, 400])
@pytest.mark.parametrize("position", [0, 3, 6, 8])
def test_resuming_anywhere_gives_exactly_the_remaining_batches(make_loader, tokens, position: int) -> None:
    """Six batches an epoch, of packs two a step of eight rows."""
    given = {"layout": Packing(tokens), "batch_size": 8} if tokens else {}
    assert len(make_loader(**given)) == 6
    loader, whole = make_loader(**given), make_loader(**given)
    expected, states = [*whole, *whole], [loader.state_dict()]
    for _ in range(2):
        states += [loader.state_dict() for _ in loader]
    resumed = make_loader(**given)
    resumed.load_state_dict(states[position])
    rest: list[Any] = []
    while len(rest) < 12 - position:
        rest += list(resumed)
    assert all(same(a, b) for a, b in zip(rest, expected[position:], strict=True))


def test_a_position_of_another_plan_is_an_error(make_loader) -> None:
    state = make_loader(batch_size=4).state_dict()
    with pytest.raises(ValueError, match=r"passes=1, this run has 2"):
        make_loader(batch_size=2, passes=2).load_state_dict(state)
    make_loader(batch_size=2, rank=1, world_size=2).load_state_dict(state)  # the same global batch on two ranks
    one = make_loader(layout=TREE).state_dict()
    with pytest.raises(ValueError, match=r"passes=\d+, this run has \d+; .*change batching.tokens until they are"):
        make_loader(layout=Packing(100)).load_state_dict(one)


@pytest.mark.parametrize("size", [1, 5, 17])
@pytest.mark.parametrize(("world_size", "passes"), [(1, 4), (2, 1), (3, 4)])
def test_every_row_of_a_step_counts_the_same(make_loader, many, names, size, passes, world_size) -> None:
    """However few passes the last step has and however unevenly its rows are dealt out; the trainer takes the mean over
    passes and ranks, so that a row counts its batch's weight by the rows of that batch, passes and ranks."""
    given = {"rows": many[:size], "world_size": world_size, "passes": passes}
    ranks = [list(make_loader(2, rank=rank, **given)) for rank in range(world_size)]
    assert len({len(batches) for batches in ranks}) == 1, "ranks stay in step"
    read: Counter[str] = Counter()
    passes = make_loader(2, **given).size.a_step
    for start in range(0, len(ranks[0]), passes):
        batches = [batch for own in ranks for batch in own[start : start + passes] if batch.weight]
        counts = [batch.weight / len(batch) / passes / world_size for batch in batches for _ in range(len(batch))]
        assert counts == pytest.approx([1 / len(counts)] * len(counts))
        read.update(name for batch in batches for name in names(batch))
        assert max(map(len, batches)) <= 2
    assert read == Counter(f"q{index}" for index in range(size)), "each row once"


def test_a_step_has_the_same_rows_on_any_devices_and_in_any_layout(make_encoder, many) -> None:
    def steps(layout: Any, world_size: int) -> list[set[str]]:
        plan = plan_epoch(many, make_encoder("scalar"), layout, step=10, world_size=world_size, seed=1, epoch=0)
        rows = [{name for pack in packs if pack.weight for name in ids(pack.rows)} for packs in plan.passes]
        return [set.union(*rows[at : at + plan.passes_a_step]) for at in range(0, len(rows), plan.passes_a_step)]

    assert list(map(len, steps(TREE, 1))) == [10, 10, 4]
    assert steps(Padding(2, pad_id=0), 1) == steps(Padding(3, pad_id=0), 3) == steps(TREE, 1)


@fast
@given(seed=st.integers(0, 99), batch_size=st.sampled_from([2, 4, 6]))
def test_both_directions_of_a_preference_share_order_and_batch(make_encoder, preferences, seed, batch_size) -> None:
    """What does not depend on the criteria then cancels within the batch, whatever the lengths."""
    settings_ = {"direction": "both", "noise": "none", "pool": None, "seed": seed, "epoch": 0}
    rows, _ = make_comparisons(preferences, **settings_)
    layout = Padding(batch_size, pad_id=0)
    plan = plan_epoch(rows, make_encoder("scalar"), layout, step=batch_size, seed=seed, epoch=0)
    assert plan.comparisons == len(rows) == 18
    for batch in [pack.rows for (pack,) in plan.passes]:
        read = Counter((row.comparison.preference_id, row.order) for row in batch)
        assert set(read.values()) == {2}
        assert sum(row.target for row in batch) == len(batch) / 2


@pytest.mark.parametrize("layout", [Padding(4, pad_id=0), TREE])
def test_validation_reads_each_row_on_one_rank_and_as_many_batches_on_all(encoded, layout) -> None:
    ranks = [ValidationLoader(encoded[:9], layout, rank=rank, world_size=4) for rank in range(4)]
    read = [name for loader in ranks for rows in loader.batches for name in ids(rows)]
    assert sorted(read) == sorted(ids(encoded[:9]))
    for loader in ranks:
        batches = list(loader)
        own = [len(batch) for batch in batches if batch.weight]
        assert len(batches) == len(ranks[0]) and own == [len(rows) for rows in loader.batches]
    assert packing_named("padded", 5) is None and packing_named("tree", 5) == Packing(5)


@fast
@given(count=st.integers(1, 24), bins=st.integers(1, 7), tokens=st.sampled_from([1, 300, 10_000]))
def test_every_row_is_dealt_out_once_and_weights_even_out(encoded, count: int, bins: int, tokens: int) -> None:
    units = [encoded[at : min(at + 3, count)] for at in range(0, count, 3)]
    packs = spread(units, bins, Packing(tokens))
    assert len(packs) == bins and all(pack.rows for pack in packs)
    read = [pack for pack in packs if pack.weight]
    assert sorted(name for pack in read for name in ids(pack.rows)) == sorted(ids(encoded[:count]))
    assert len(read) == min(bins, count), "no pack stands idle while another has two rows"
    # The mean over packs of weight times mean loss is the mean loss: with a loss of 1 a row it is 1.
    assert sum(pack.weight for pack in packs) / bins == pytest.approx(1)
    assert all(pack.weight == pytest.approx(len(pack.rows) * bins / count) for pack in read)


def test_packs_have_near_equal_work_and_units_stay_whole_unless_they_are_too_large(encoded) -> None:
    work = [TREE.work(pack.rows) for pack in spread([[row] for row in encoded], 4, TREE)]
    assert max(work) - min(work) <= max(TREE.work([row]) for row in encoded)
    units = [encoded[:12], encoded[12:]]
    assert sorted(len(pack.rows) for pack in spread(units, 2, TREE)) == [12, 12]
    work = TREE.work(encoded[:12])
    assert max(TREE.work(pack.rows) for pack in spread(units, 4, Packing(work - 1))) < work
    distinct = {token_ids(sequence) for row in encoded for sequence in row.sequences}
    assert TREE.work(encoded) <= TREE.collate(encoded).tokens < sum(map(len, distinct))


@fast
@given(tokens=st.integers(1, 4000))
def test_filled_packs_hold_all_rows_and_no_more_than_they_may(encoded, tokens: int) -> None:
    packing = Packing(tokens)
    packs = fill(encoded, packing)
    assert sorted(name for rows in packs for name in ids(rows)) == sorted(ids(encoded))
    assert all(packing.work(rows) <= tokens or len(rows) == 1 for rows in packs)
    alone = [(sum(packing.work([row]) for row in one), packing.work(other[:1])) for one, other in pairwise(packs)]
    assert all(filled + further > tokens for filled, further in alone), "none could be fuller"


def test_rows_of_one_prompt_stay_together(make_encoder, many) -> None:
    mixed = [replace(row, id=f"{row.id} {kind}", criteria=(kind,)) for kind in ("x", "y") for row in many[:6]]
    rows = [make_encoder("scalar").encode(row) for row in mixed]
    single = max(TREE.work([row]) for row in rows)
    for pack in fill(rows, Packing(2 * single)):
        assert len(Counter(row.comparison.cluster for row in pack)) == len(pack) // 2


def plan(rows: Any, encoder: Any, packing: Packing, **changes: Any) -> Any:
    return plan_epoch(rows, encoder, packing, **{"step": 8, "seed": 0, "epoch": 0, **changes})


def test_later_epochs_of_uneven_preferences_have_the_steps_of_the_first_and_all_rows(make_encoder, many) -> None:
    rows = [replace(row, id=f"{row.id}-{n}", criteria=(f"{n}",))
            for index, row in enumerate(many) for n in range((1, 1, 2, 5, 7)[index % 5])]  # fmt: skip
    free = {len(plan(rows, make_encoder("scalar"), TREE, step=6, epoch=epoch).passes) for epoch in range(5)}
    assert len(free) > 1, "left to themselves, epochs differ"
    loader = TrainLoader(lambda epoch: (rows, {}), make_encoder("scalar"), Packing(500), step=6, seed=0)
    passes = loader.size.a_step
    for epoch in range(5):
        planned = loader.plan(epoch)
        assert len(planned.passes) == loader.size.passes and planned.comparisons == len(rows)
        steps = [[row for packs in planned.passes[at : at + passes] for row in packs[0].rows if packs[0].weight]
                 for at in range(0, len(planned.passes), passes)]  # fmt: skip
        assert sorted(name for step in steps for name in ids(step)) == sorted(row.id for row in rows)
        assert all(steps), "no step without rows"
        preferences = [{row.comparison.preference_id for row in step} for step in steps]
        assert sum(map(len, preferences)) == len(many), "preferences stay whole"


def test_as_many_passes_as_hold_the_tokens_and_no_more_than_rows(make_encoder, many) -> None:
    encoder = make_encoder("scalar")
    work = max(TREE.work([row]) for row in map(encoder.encode, many))
    for world_size, tokens in ((1, 500), (2, work), (1, work * 7 // 4)):
        packing = Packing(tokens)
        found = plan(many, encoder, packing, world_size=world_size)
        packs = [pack.rows for own in found.passes for pack in own if len(pack.rows) > 1]
        assert max(map(packing.work, packs), default=0) <= tokens, "all fit"
    assert plan(many, encoder, TREE).passes_a_step == 1
    for world_size, expected in ((1, 8), (3, 3)):  # every comparison is longer than a pass: one each
        tight = plan(many, encoder, Packing(10), world_size=world_size)
        assert tight.passes_a_step == expected
        assert max(len(pack.rows) for packs in tight.passes for pack in packs) == 1
