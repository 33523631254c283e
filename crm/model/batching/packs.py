"""Packs: forward passes of a bounded size. In: encoded comparisons. Out: portions of them with near-equal work.

The work of a pack is its tokens: what sequences have in common counts once where the packing shares it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from crm.model.batching.forest import BatchingKind, unique_tokens
from crm.model.batching.forest_batches import ForestBatch, collate_forest
from crm.model.encoding import EncodedComparison, token_ids

Rows = list[EncodedComparison]
ROW_STEP = 64
"""Rows are filled up to a multiple of this: few distinct shapes, so that kernels prepared for one serve again."""


@dataclass(frozen=True, slots=True)
class Packing:
    """``packed`` lays sequences side by side, ``tree`` reads common beginnings once, and ``prompt_tree`` also trains on
    all comparisons of a prompt in one optimizer step.
    """

    kind: BatchingKind
    tokens: int
    """Most tokens of a forward pass; a single comparison that has more is read all the same, and a step of training is
    dealt out to a fixed number of passes, which the first epoch settles."""

    def work(self, rows: Sequence[EncodedComparison]) -> int:
        """Tokens that a pack of ``rows`` computes."""
        sequences = [token_ids(sequence) for row in rows for sequence in row.sequences]
        return sum(map(len, set(sequences))) if self.kind == "packed" else unique_tokens(sequences)

    def collate(self, rows: Sequence[EncodedComparison], weight: float = 1.0) -> ForestBatch:
        """One forward pass; ``weight`` is the factor of its mean loss."""
        return collate_forest(rows, share=self.kind != "packed", weight=weight, multiple=ROW_STEP)


def packing_named(name: str, tokens: int) -> Packing | None:
    """The packing of that name, one of `BATCHINGS`; None for ``padded``."""
    return None if name == "padded" else Packing(cast(BatchingKind, name), tokens)


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
    if bins == 1:  # as most steps on a CPU are: nothing to weigh
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


def _fitting(work: int, unit: Rows, packing: Packing) -> Iterator[tuple[int, Rows]]:
    if work <= packing.tokens or len(unit) == 1:
        yield work, unit
        return
    for half, rows in _halves(unit, packing):
        yield from _fitting(half, rows, packing)


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
