"""What an epoch holds. In: one epoch's comparisons. Out: forward passes of every rank, by (seed, epoch) alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from crm.io.draws import generator
from crm.model.batching.packs import Pack, Packing, spread
from crm.model.encoding import EncodedComparison, Encoder, Order
from crm.schema import Comparison

Step = list[list[EncodedComparison]]
"""The rows of an optimizer step on all ranks, in units that share what they can."""
WINDOW = 16
"""Batches that are sorted by length together: near-equal lengths pad little, and batches stay random enough."""


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """One epoch, encoded and cut into batches of near-equal length; ``overlong`` rows did not fit and are left out."""

    batches: list[list[EncodedComparison]]
    overlong: int

    @property
    def comparisons(self) -> int:
        """Rows in the epoch, on all ranks together."""
        return sum(map(len, self.batches))

    def __len__(self) -> int:
        """Forward passes on each rank."""
        return len(self.batches)

    def share(self, index: int, rank: int, world_size: int, passes: int, end: int) -> Pack:
        """What a rank reads in forward pass ``index``, of ``passes`` a step in an epoch that has ``end`` of them.

        Batches and ranks may have unequal numbers of rows, and the last step of an epoch fewer passes, while the
        trainer takes the mean over ``passes`` and ranks: the weight makes up for both.
        """
        first = index - index % passes
        total = sum(map(len, self.batches[first : min(first + passes, end)]))
        own = self.batches[index][rank::world_size]
        return Pack(own or self.batches[index][:1], len(own) * passes * world_size / total)


@dataclass(frozen=True, slots=True)
class PackedPlan:
    """One epoch in packs: ``passes[i]`` holds forward pass i of every rank, a fixed number of them a step."""

    passes: list[list[Pack]]
    overlong: int

    @property
    def comparisons(self) -> int:
        """Rows in the epoch, on all ranks together."""
        return sum(len(pack.rows) for packs in self.passes for pack in packs if pack.weight)

    def __len__(self) -> int:
        return len(self.passes)

    def share(self, index: int, rank: int, world_size: int, passes: int, end: int) -> Pack:
        """What a rank reads in forward pass ``index``; every step has as many, and packs bring their weights."""
        return self.passes[index][rank]


def encode_epoch(
    comparisons: Sequence[Comparison], encoder: Encoder, *, seed: int, epoch: int
) -> tuple[list[list[EncodedComparison]], int]:
    """Each row in an order drawn for it, rows of one preference in a group; and how many rows were overlong."""
    encoded = [encoder.encode(row, draw_order(row.preference_id, seed=seed, epoch=epoch)) for row in comparisons]
    groups: dict[str, list[EncodedComparison]] = {}
    for row in encoded:
        if row is not None:
            groups.setdefault(row.comparison.preference_id, []).append(row)
    return list(groups.values()), encoded.count(None)


def plan_packed_epoch(
    comparisons: Sequence[Comparison],
    encoder: Encoder,
    packing: Packing,
    *,
    pairs: int,
    passes: int,
    world_size: int,
    seed: int,
    epoch: int,
    steps: int | None = None,
) -> PackedPlan:
    """Draw steps as `draw_steps` does, and deal each out to ``passes`` packs a rank, of near-equal work."""
    drawn, overlong = draw_steps(comparisons, encoder, pairs=pairs, seed=seed, epoch=epoch, steps=steps)
    return deal(drawn, overlong, packing, passes=passes, world_size=world_size)


def draw_steps(
    comparisons: Sequence[Comparison],
    encoder: Encoder,
    *,
    pairs: int,
    seed: int,
    epoch: int,
    steps: int | None = None,
) -> tuple[list[Step], int]:
    """Orders and steps of ``pairs`` rows, drawn; and how many rows were overlong.

    Where that makes another number of steps than the ``steps`` that are asked for, the epoch is cut into so many of
    near-equal size instead.
    """
    groups, overlong = encode_epoch(comparisons, encoder, seed=seed, epoch=epoch)
    drawn = generator(seed, epoch, "epoch", "packs").sample(groups, len(groups))
    cut = list(_steps(drawn, pairs))
    return cut if steps in (None, len(cut)) else list(_even_steps(drawn, steps)), overlong


def deal(steps: Sequence[Step], overlong: int, packing: Packing, *, passes: int, world_size: int) -> PackedPlan:
    """Each of ``steps`` in ``passes`` packs a rank."""
    plan = PackedPlan([], overlong)
    for step in steps:
        packs = spread(step, passes * world_size, packing)
        plan.passes.extend(packs[at : at + world_size] for at in range(0, len(packs), world_size))
    return plan


def _steps(groups: Sequence[list[EncodedComparison]], pairs: int) -> Iterator[Step]:
    """Groups one after the other until a step has ``pairs`` rows."""
    step: Step = []
    for group in groups:
        step.append(group)
        if sum(map(len, step)) >= pairs:
            yield step
            step = []
    if step:
        yield step


def _even_steps(groups: Sequence[list[EncodedComparison]], steps: int) -> Iterator[Step]:
    """``steps`` portions of near-equal numbers of rows, or one a group where there are fewer groups."""
    steps, total = min(steps, len(groups)), sum(map(len, groups))
    step: Step = []
    made = rows = 0
    for index, group in enumerate(groups, start=1):
        step.append(group)
        rows += len(group)
        left = steps - made - 1  # after this one; each needs a group
        if len(groups) - index == left or (left and rows * steps >= total * (made + 1)):
            yield step
            step, made = [], made + 1


def passes_needed(steps: Sequence[Step], packing: Packing, world_size: int) -> int:
    """The fewest forward passes a rank and step of which none has more than ``packing.tokens``.

    A comparison that has more by itself is read all the same. Units do not fill packs to the brim, so that passes of
    ``packing.tokens`` each may not do: they are dealt out until they fit.
    """
    passes = 1
    for step in steps:
        while not _fits(packs := spread(step, passes * world_size, packing), packing):
            work = sum(packing.work(pack.rows) for pack in packs)  # in more packs it is as much or more
            alone = -(-sum(map(len, step)) // world_size)  # passes in which every comparison is read by itself
            passes = max(passes + 1, min(work // (world_size * packing.tokens), alone))
    return passes


def _fits(packs: Sequence[Pack], packing: Packing) -> bool:
    return all(len(pack.rows) == 1 or packing.work(pack.rows) <= packing.tokens for pack in packs)


def plan_epoch(
    comparisons: Sequence[Comparison], encoder: Encoder, batch_size: int, *, seed: int, epoch: int
) -> EpochPlan:
    """Draw each row's order, drop and count overlong rows, group near-equal lengths, shuffle the batches.

    Comparisons of one preference (direction ``both``) share their order and stay side by side.
    """
    groups, overlong = encode_epoch(comparisons, encoder, seed=seed, epoch=epoch)
    length = {rows[0].comparison.preference_id: max(max(row.lengths) for row in rows) for rows in groups}
    rng = generator(seed, epoch, "epoch", "batches")
    fitting = [row for rows in rng.sample(groups, len(groups)) for row in rows]
    batches: list[list[EncodedComparison]] = []
    for start in range(0, len(fitting), batch_size * WINDOW):
        window = fitting[start : start + batch_size * WINDOW]
        window.sort(key=lambda row: length[row.comparison.preference_id])
        cut = [window[at : at + batch_size] for at in range(0, len(window), batch_size)]
        rng.shuffle(cut)
        batches += cut
    return EpochPlan(batches, overlong)


def draw_order(sample_id: str, *, seed: int, epoch: int) -> Order:
    """Which response stands first in training: a coin a sample and epoch, so that no position is worth learning."""
    return "ab" if generator(seed, epoch, sample_id, "order").random() < 0.5 else "ba"
