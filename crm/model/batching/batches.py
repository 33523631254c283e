"""Padded batches. In: encoded comparisons. Out: tensors for one forward pass and where the head reads.

Letters: B comparisons, S sequences (at most 2B), T tokens of the longest sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from crm.model.encoding import EncodedComparison, token_ids

WIDTH_STEP = 16
"""Rows are padded to a multiple of this: few distinct shapes, so that kernels prepared for one serve again."""


@dataclass
class PaddedBatch:
    """One forward pass. Right padding; equal sequences (a shared baseline, say) are read once."""

    input_ids: Tensor
    """(S, T) int64"""
    attention_mask: Tensor
    """(S, T) int64, 1 on tokens and 0 on padding"""
    rows: Tensor
    """(B, 2) int64: row of the response shown first and of the one shown second"""
    positions: Tensor
    """(B, 2) int64: token at which the head reads in that row"""
    target: Tensor
    """(B,) float32 in {0, 1/2, 1}: probability that the response shown first is preferred"""
    sign: Tensor
    """(B,) float32: +1 where response A of the record stands first, -1 where B does"""
    reverse: Tensor
    """(B,) bool: whether the criteria are those of the side that lost the vote"""

    weight: ClassVar[float] = 1.0
    """Factor of the batch's mean loss: all padded batches count alike"""

    def to(self, device: torch.device | str) -> PaddedBatch:
        """The same batch on another device."""
        return PaddedBatch(**{name: value.to(device, non_blocking=True) for name, value in vars(self).items()})

    @property
    def tokens(self) -> int:
        """Tokens computed, padding left out. Ask on the CPU: on a GPU the answer waits for the device."""
        return int(self.attention_mask.sum())

    @property
    def pairs(self) -> int:
        """(query, key) pairs of tokens that attention reads: n (n + 1) / 2 in a sequence of n. Ask on the CPU."""
        lengths = self.attention_mask.sum(dim=1)
        return int((lengths * (lengths + 1) // 2).sum())

    def __len__(self) -> int:
        return int(self.target.shape[0])


def collate(encoded: Sequence[EncodedComparison], pad_id: int) -> PaddedBatch:
    """Pad comparisons into one batch.

    Two comparisons whose sequences are [5, 6] and [5, 6, 7], pad id 0, give ``input_ids`` [[5, 6, 0, ...],
    [5, 6, 7, ...]], filled with the pad id to a multiple of `WIDTH_STEP`.
    """
    row_of: dict[tuple[int, ...], int] = {}
    rows, positions = [], []
    for item in encoded:
        own_rows = [row_of.setdefault(token_ids(sequence), len(row_of)) for sequence in item.sequences]
        rows.append([own_rows[sequence] for sequence, _ in item.reads])
        positions.append([position for _, position in item.reads])
    width = -(-max(map(len, row_of)) // WIDTH_STEP) * WIDTH_STEP
    input_ids = torch.full((len(row_of), width), pad_id, dtype=torch.int64)
    attention_mask = torch.zeros_like(input_ids)
    for ids, row in row_of.items():
        input_ids[row, : len(ids)] = torch.tensor(ids)
        attention_mask[row, : len(ids)] = 1
    return PaddedBatch(
        input_ids,
        attention_mask,
        torch.tensor(rows),
        torch.tensor(positions),
        torch.tensor([item.target for item in encoded], dtype=torch.float32),
        torch.tensor([1.0 if item.order == "ab" else -1.0 for item in encoded]),
        torch.tensor([item.comparison.direction == "reverse" for item in encoded]),
    )
