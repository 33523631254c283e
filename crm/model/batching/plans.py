"""Which comparisons a forward pass reads, on every rank, and loaders: an epoch depends on (seed, epoch) alone."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from crm.io.draws import generator, grouped
from crm.model.batching.batches import ROW_STEP, Batch, ForestBatch, PaddedBatch, collate, collate_forest
from crm.model.batching.forest import unique_tokens
from crm.model.encoding import EncodedComparison, Encoder, Order, token_ids
from crm.schema import Comparison

Rows = list[EncodedComparison]
Step = list[Rows]
"""The rows of an optimizer step on all ranks, in units that share what they can."""


@dataclass(frozen=True, slots=True)
class Padding:
    """Forward passes of at most ``rows`` on each rank, padded to the longest; near-equal lengths together."""

    rows: int
    pad_id: int

    def collate(self, rows: Sequence[EncodedComparison], weight: float = 1.0) -> PaddedBatch:
        """One forward pass; ``weight`` is the factor of its mean loss."""
        return collate(rows, self.pad_id, weight)

    def cut(self, rows: Sequence[EncodedComparison], rank: int = 0, world_size: int = 1) -> list[Rows]:
        """Batches of ``rank`` to evaluate."""
        own = sorted(rows, key=lambda row: max(row.lengths))[rank::world_size]
        return [own[at : at + self.rows] for at in range(0, len(own), self.rows)]


@dataclass(frozen=True, slots=True)
class Packing:
    """Forward passes that read common beginnings once and pad nothing."""

    tokens: int
    """Most tokens of a forward pass; a single comparison that has more is read all the same."""

    def work(self, rows: Sequence[EncodedComparison]) -> int:
        """Tokens that a pack of ``rows`` computes."""
        return unique_tokens([token_ids(sequence) for row in rows for sequence in row.sequences])

    def collate(self, rows: Sequence[EncodedComparison], weight: float = 1.0) -> ForestBatch:
        """One forward pass; ``weight`` is the factor of its mean loss."""
        return collate_forest(rows, weight=weight, multiple=ROW_STEP)

    def cut(self, rows: Sequence[EncodedComparison], rank: int = 0, world_size: int = 1) -> list[Rows]:
        """Packs of ``rank`` to evaluate; neighbours, which may share beginnings, stay on one rank."""
        start, end = (len(rows) * index // world_size for index in (rank, rank + 1))
        return fill(rows[start:end], self)


Layout = Padding | Packing


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


class EpochSize(NamedTuple):
    """Forward passes on each rank: the trainer counts on equal epochs, so that the first settles it for all."""

    passes: int
    a_step: int


@dataclass(frozen=True, slots=True)
class Plan:
    """One epoch: ``passes[i]`` holds forward pass i of every rank."""

    passes: list[list[Pack]]
    passes_a_step: int
    overlong: int
    """Rows that did not fit and are left out."""

    @property
    def comparisons(self) -> int:
        """Rows in the epoch, on all ranks together."""
        return sum(len(pack.rows) for packs in self.passes for pack in packs if pack.weight)


def plan_epoch(
    comparisons: Sequence[Comparison],
    encoder: Encoder,
    layout: Layout,
    *,
    step: int,
    world_size: int = 1,
    seed: int,
    epoch: int,
    size: EpochSize | None = None,
) -> Plan:
    """Draw the order of each row, and optimizer steps of ``step`` comparisons on all ranks together.

    ``size`` is that of the first epoch, for a later one, which is cut into as many steps and passes, so that all its
    rows are read: noise can make more rows fit in one than in another, and a pass hold more than the layout allows.
    """
    groups, overlong = encode_epoch(comparisons, encoder, seed=seed, epoch=epoch)
    drawn = generator(seed, epoch, "epoch", "packs").sample(groups, len(groups))
    steps = list(_steps(drawn, step))
    if size and len(steps) != (expected := size.passes // size.a_step):
        steps = list(_even_steps(drawn, expected))
    passes_a_step = size.a_step if size else passes_needed(steps, layout, world_size)
    dealt = [spread(rows, passes_a_step * world_size, layout) for rows in steps]
    passes = [packs[at : at + world_size] for packs in dealt for at in range(0, len(packs), world_size)]
    return Plan(passes, passes_a_step, overlong)


def encode_epoch(
    comparisons: Sequence[Comparison], encoder: Encoder, *, seed: int, epoch: int
) -> tuple[list[Rows], int]:
    """Each row in an order drawn for it, rows of one preference in a group; and how many rows were overlong."""
    encoded = [encoder.encode(row, draw_order(row.preference_id, seed=seed, epoch=epoch)) for row in comparisons]
    groups = grouped((row for row in encoded if row is not None), lambda row: row.comparison.preference_id)
    return list(groups.values()), encoded.count(None)


def draw_order(sample_id: str, *, seed: int, epoch: int) -> Order:
    """Which response stands first in training: a coin a sample and epoch, so that no position is worth learning."""
    return "ab" if generator(seed, epoch, sample_id, "order").random() < 0.5 else "ba"


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


def passes_needed(steps: Sequence[Step], layout: Layout, world_size: int) -> int:
    """The fewest forward passes a rank and step of which none has more than the layout allows.

    A comparison that has more by itself is read all the same. Units do not fill packs to the brim, so that passes of
    ``layout.tokens`` each may not do: they are dealt out until they fit.
    """
    if isinstance(layout, Padding):
        return max((-(-sum(map(len, step)) // (layout.rows * world_size)) for step in steps), default=1)
    passes = 1
    for step in steps:
        while not _fits(packs := spread(step, passes * world_size, layout), layout):
            work = sum(layout.work(pack.rows) for pack in packs)  # in more packs it is as much or more
            alone = -(-sum(map(len, step)) // world_size)  # passes in which every comparison is read by itself
            passes = max(passes + 1, min(work // (world_size * layout.tokens), alone))
    return passes


def _fits(packs: Sequence[Pack], packing: Packing) -> bool:
    return all(len(pack.rows) == 1 or packing.work(pack.rows) <= packing.tokens for pack in packs)


def spread(units: Sequence[Rows], bins: int, layout: Layout) -> list[Pack]:
    """Deal ``units`` out to ``bins`` packs: padded by length, else of near-equal work, the largest first (Graham 1969).

    A unit stays whole for what it shares, unless it is more than a pack may hold or there are fewer units than bins.
    """
    rows, total = [row for unit in units for row in unit], sum(map(len, units))
    if bins == 1:
        return [Pack(rows, 1.0)]
    if isinstance(layout, Padding):
        rows.sort(key=lambda row: max(row.lengths))
        cuts = [total * at // bins for at in range(bins + 1)]
        return [Pack(rows[start:end] or rows[:1], (end - start) * bins / total) for start, end in pairwise(cuts)]
    pieces = [(layout.work(unit), unit) for unit in units]
    pieces = [piece for work, unit in pieces for piece in _fitting(work, unit, layout)]
    while len(pieces) < min(bins, total):
        largest = max((piece for piece in pieces if len(piece[1]) > 1), key=lambda piece: piece[0])
        pieces.remove(largest)
        pieces += _halves(largest[1], layout)
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
    packs: list[Rows] = []
    filled = 0
    for unit in grouped(rows, lambda row: row.comparison.cluster).values():
        for work, piece in _fitting(packing.work(unit), unit, packing):
            if packs and filled + work <= packing.tokens:
                packs[-1] = packs[-1] + piece
                filled += work
            else:
                packs.append(piece)
                filled = work
    return packs


class TrainLoader:
    """Batches of one rank, resumable: an epoch per iteration, in optimizer steps of ``step`` comparisons on all ranks.

    ``draw`` gives the comparisons of an epoch and what became of the votes. An epoch depends on (``seed``, epoch)
    alone, so that a position is two integers. Weights make every comparison of an optimizer step count the same.
    """

    def __init__(
        self,
        draw: Callable[[int], tuple[Sequence[Comparison], dict[str, int]]],
        encoder: Encoder,
        layout: Layout,
        *,
        step: int,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self._draw, self._encoder, self._layout = draw, encoder, layout
        self._sizes: dict[str, Any] = {"step": step, "world_size": world_size, "seed": seed, "size": None}
        self.rank, self._epoch, self._next_batch = rank, 0, 0
        rows, self.counts = draw(0)
        """The latter: what became of the votes in the first epoch."""
        plan = self._plan(0, rows)
        self.size = self._sizes["size"] = EpochSize(len(plan.passes), plan.passes_a_step)
        self.counts |= {"overlong": plan.overlong, "trained_on": plan.comparisons}

    def plan(self, epoch: int) -> Plan:
        """The plan of an epoch; only the latest is kept."""
        if self._latest[0] != epoch:
            self._plan(epoch, self._draw(epoch)[0])
        return self._latest[1]

    def _plan(self, epoch: int, rows: Sequence[Comparison]) -> Plan:
        plan = plan_epoch(rows, self._encoder, self._layout, **self._sizes, epoch=epoch)
        self._latest = epoch, plan
        return plan

    def __len__(self) -> int:
        """Forward passes of an epoch."""
        return self.size.passes

    def __iter__(self) -> Iterator[Batch]:
        epoch = self._epoch
        passes = self.plan(epoch).passes
        for index in range(self._next_batch, len(passes)):
            # Moved before the batch is handed out: a checkpoint taken after this batch points past it.
            last = index + 1 == len(passes)
            self._epoch, self._next_batch = (epoch + 1, 0) if last else (epoch, index + 1)
            pack = passes[index][self.rank]
            yield self._layout.collate(pack.rows, pack.weight)

    def state_dict(self) -> dict[str, Any]:
        """Where to go on: the epoch, the next batch in it, and the passes a step, by which batches are counted."""
        return {"epoch": self._epoch, "next_batch": self._next_batch, "passes": self.size.a_step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved position, with the settings of the saved run (`checkpoint_to_resume` compares them).

        Raises ``ValueError`` where a step has another number of passes, as on other devices.
        """
        if state["passes"] != self.size.a_step:
            raise ValueError(
                f"resume: the checkpoint was written with passes={state['passes']}, this run has {self.size.a_step}; "
                "the batches would differ, so change batching.tokens until they are as many or start a new run"
            )
        self._epoch, self._next_batch = int(state["epoch"]), int(state["next_batch"])


class ValidationLoader:
    """Fixed batches in a fixed order: each row on exactly one rank, and as many batches on every rank.

    A rank that has fewer of its own reads a row of weight 0 for each that is missing: where weights are sharded, every
    rank must come to every forward pass.
    """

    def __init__(
        self, encoded: Sequence[EncodedComparison], layout: Layout, *, rank: int = 0, world_size: int = 1
    ) -> None:
        shares = [layout.cut(encoded, index, world_size) for index in range(world_size)]
        self.batches, self._length = shares[rank], max(map(len, shares))
        self._layout, self._some = layout, encoded[:1]

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Batch]:
        yield from map(self._layout.collate, self.batches)
        for _ in range(self._length - len(self.batches)):
            yield self._layout.collate(self._some, 0.0)
