"""Which comparisons a forward pass reads: packs of bounded size, and epochs by (seed, epoch) alone.

The work of a pack is its tokens: what sequences have in common counts once, and nothing is padded.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from crm.io.draws import generator
from crm.model.batching.batches import ROW_STEP, ForestBatch, collate_forest
from crm.model.batching.forest import unique_tokens
from crm.model.encoding import EncodedComparison, Encoder, Order, token_ids
from crm.schema import Comparison

Rows = list[EncodedComparison]
Step = list[Rows]
"""The rows of an optimizer step on all ranks, in units that share what they can."""
WINDOW = 16
"""Batches that are sorted by length together: near-equal lengths pad little, and batches stay random enough."""


@dataclass(frozen=True, slots=True)
class Packing:
    """Forward passes that read common beginnings once."""

    tokens: int
    """Most tokens of a forward pass; a single comparison that has more is read all the same, and a step of training is
    dealt out to a fixed number of passes, which the first epoch settles."""

    def work(self, rows: Sequence[EncodedComparison]) -> int:
        """Tokens that a pack of ``rows`` computes."""
        return unique_tokens([token_ids(sequence) for row in rows for sequence in row.sequences])

    def collate(self, rows: Sequence[EncodedComparison], weight: float = 1.0) -> ForestBatch:
        """One forward pass; ``weight`` is the factor of its mean loss."""
        return collate_forest(rows, weight=weight, multiple=ROW_STEP)


def packing_named(name: str, tokens: int) -> Packing | None:
    """None for ``padded``; other batchings are of training, and evaluate as ``tree`` does."""
    return None if name == "padded" else Packing(tokens)


@dataclass(frozen=True, slots=True)
class Pack:
    """The rows of one forward pass on one rank."""

    rows: Rows
    weight: float
    """Factor that makes the mean over an optimizer step's packs of their mean losses the mean over its comparisons; 0
    for a pack that only keeps a rank in step, its row being another's."""


def spread(units: Sequence[Rows], bins: int, packing: Packing) -> list[Pack]:
    """Deal ``units`` out to ``bins`` packs of near-equal work, the largest first (Graham 1969, LPT).

    A unit stays whole for what it shares, unless it is more than a pack may hold or there are fewer units than bins.
    """
    total = sum(map(len, units))
    if bins == 1:
        return [Pack([row for unit in units for row in unit], 1.0)]
    pieces = [(packing.work(unit), unit) for unit in units]
    pieces = [piece for work, unit in pieces for piece in _fitting(work, unit, packing)]
    while len(pieces) < min(bins, total):
        largest = max((piece for piece in pieces if len(piece[1]) > 1), key=lambda piece: piece[0])
        pieces.remove(largest)
        pieces += _halves(largest[1], packing)
    heap = [(0, index) for index in range(bins)]
    dealt: list[Rows] = [[] for _ in range(bins)]
    for work, unit in sorted(pieces, key=lambda piece: -piece[0]):
        load, index = heapq.heappop(heap)
        dealt[index] += unit
        heapq.heappush(heap, (load + work, index))
    return [Pack(rows or pieces[0][1][:1], len(rows) * bins / total) for rows in dealt]


def _fitting(work: int, unit: Rows, packing: Packing) -> list[tuple[int, Rows]]:
    """The unit, or parts of it that fit a pack, each with its work."""
    if work <= packing.tokens or len(unit) == 1:
        return [(work, unit)]
    return [piece for half in _halves(unit, packing) for piece in _fitting(*half, packing)]


def _halves(unit: Rows, packing: Packing) -> list[tuple[int, Rows]]:
    middle = len(unit) // 2
    return [(packing.work(rows), rows) for rows in (unit[:middle], unit[middle:])]


def fill(rows: Sequence[EncodedComparison], packing: Packing) -> list[Rows]:
    """Cut rows into packs one after the other, as full as they may be; rows of one prompt stay together."""
    prompts: dict[str, Rows] = {}
    for row in rows:
        prompts.setdefault(row.comparison.cluster, []).append(row)
    packs: list[Rows] = []
    filled = 0
    for unit in prompts.values():
        for work, piece in _fitting(packing.work(unit), unit, packing):
            if packs and filled + work <= packing.tokens:
                packs[-1] = packs[-1] + piece
                filled += work
            else:
                packs.append(piece)
                filled = work
    return packs


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """One epoch, encoded and cut into batches of near-equal length; ``overlong`` rows did not fit and are left out."""

    batches: list[Rows]
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
) -> tuple[list[Rows], int]:
    """Each row in an order drawn for it, rows of one preference in a group; and how many rows were overlong."""
    encoded = [encoder.encode(row, draw_order(row.preference_id, seed=seed, epoch=epoch)) for row in comparisons]
    groups: dict[str, Rows] = {}
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
    comparisons: Sequence[Comparison], encoder: Encoder, *, pairs: int, seed: int, epoch: int, steps: int | None = None
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


def _steps(groups: Sequence[Rows], pairs: int) -> Iterator[Step]:
    """Groups one after the other until a step has ``pairs`` rows."""
    step: Step = []
    for group in groups:
        step.append(group)
        if sum(map(len, step)) >= pairs:
            yield step
            step = []
    if step:
        yield step


def _even_steps(groups: Sequence[Rows], steps: int) -> Iterator[Step]:
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
    batches: list[Rows] = []
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
