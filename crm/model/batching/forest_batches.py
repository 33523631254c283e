"""Packed batches. In: encoded comparisons. Out: one row of tokens without padding, and who may see whom in it.

Letters: B comparisons, N tokens of the row, R distinct tokens at which the head reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from crm.model.batching.forest import Node, fill_up, grow_forest
from crm.model.batching.tree_mask import TreeMask, full_mask, read_mask
from crm.model.encoding import EncodedComparison, token_ids


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


def collate_forest(
    encoded: Sequence[EncodedComparison], *, share: bool, weight: float = 1.0, multiple: int = 1
) -> ForestBatch:
    """Lay comparisons out in one row; ``share`` makes common beginnings one node, else only equal sequences are.

    The row has a ``multiple`` of tokens.
    """
    flat = [list(map(token_ids, item.sequences)) for item in encoded]
    first = [0]
    for sequences in flat:
        first.append(first[-1] + len(sequences))
    forest = grow_forest([sequence for sequences in flat for sequence in sequences], share=share)
    tokens = len(forest.ids)
    pairs = sum(node.length * node.depth + node.length * (node.length + 1) // 2 for node in forest.nodes)
    fill_up(forest, multiple)
    places = [
        [forest.locate(start + sequence, position) for sequence, position in item.reads]
        for item, start in zip(encoded, first, strict=False)
    ]
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
        forest.nodes,
        full_mask(forest),
        read_mask(forest, read_tokens),
        tokens,
        pairs,
        weight,
    )
