"""Packs: forward passes of a bounded size, a row of tokens each. In: encoded comparisons. Out: their share and tensors.

The work of a pack is its tokens: what sequences have in common counts once. Nothing is padded. Letters: B comparisons,
N tokens of the row, R distinct tokens at which the head reads.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from crm.model.batching.batches import TextTokens, text_tokens
from crm.model.batching.forest import Node, fill_up, grow_forest, unique_tokens
from crm.model.batching.tree_mask import TreeMask, full_mask, read_mask
from crm.model.encoding import EncodedComparison, token_ids

Rows = list[EncodedComparison]
ROW_STEP = 64
"""Rows are filled up to a multiple of this: few distinct shapes, so that kernels prepared for one serve again."""


@dataclass
class ForestBatch:
    """One forward pass over a forest (`crm.model.batching.forest`), for B comparisons."""

    input_ids: Tensor
    """(1, N) int64"""
    position_ids: Tensor
    """(1, N) int64, from 0 in every sequence"""
    read_tokens: Tensor
    """(R,) int64, ascending: tokens at which the head reads"""
    reads: Tensor
    """(B, 2) int64 in [0, R): which of these for the response shown first and for the one shown second"""
    target: Tensor
    """(B,) float32 in {0, 1/2, 1}: probability that the response shown first is preferred"""
    sign: Tensor
    """(B,) float32: +1 where response A of the record stands first, -1 where B does"""
    reverse: Tensor
    """(B,) bool: whether the criteria are those of the side that lost the vote"""
    texts: TextTokens | None
    """For a head that pools over tokens"""
    nodes: list[Node]
    """Of the forest, in the order of the row"""
    tree_mask: TreeMask
    """For all N tokens"""
    read_mask: TreeMask
    """For the R read tokens alone"""
    tokens: int
    """Of the sequences, at most N: a row may be filled up"""
    pairs: int
    """(query, key) pairs of their tokens that attention reads"""
    weight: float = 1.0
    """Factor of this batch's mean loss, so that every comparison of an optimizer step counts the same"""

    def to(self, device: torch.device | str) -> ForestBatch:
        """The same batch on another device."""
        parts: dict[str, Any] = dict(vars(self))
        return ForestBatch(**{name: part.to(device) if hasattr(part, "to") else part for name, part in parts.items()})

    def __len__(self) -> int:
        return int(self.target.shape[0])


def collate_forest(encoded: Sequence[EncodedComparison], *, weight: float = 1.0, multiple: int = 1) -> ForestBatch:
    """Lay comparisons out in one row of a ``multiple`` of tokens, in which common beginnings are one node."""
    flat = [list(map(token_ids, item.sequences)) for item in encoded]
    first = [0]
    for sequences in flat:
        first.append(first[-1] + len(sequences))
    forest = grow_forest([sequence for sequences in flat for sequence in sequences])
    tokens, pairs = len(forest.ids), forest.pairs
    fill_up(forest, multiple)
    places = [
        [forest.locate(start + sequence, position) for sequence, position in item.reads]
        for item, start in zip(encoded, first, strict=False)
    ]
    places_of = cache(forest.places)  # one text stands in many comparisons
    read_tokens = sorted({place for pair in places for place in pair})
    rank = {place: index for index, place in enumerate(read_tokens)}
    return ForestBatch(
        torch.tensor([forest.ids]),
        torch.tensor([forest.positions]),
        torch.tensor(read_tokens),
        torch.tensor([[rank[place] for place in pair] for pair in places]),
        torch.tensor([item.target for item in encoded], dtype=torch.float32),
        torch.tensor([1.0 if item.order == "ab" else -1.0 for item in encoded]),
        torch.tensor([item.comparison.direction == "reverse" for item in encoded]),
        text_tokens(encoded, lambda row, span: places_of(forest.leaf_of[first[row] + span.sequence], *span[1:])),
        forest.nodes,
        full_mask(forest),
        read_mask(forest, read_tokens),
        tokens,
        pairs,
        weight,
    )


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
