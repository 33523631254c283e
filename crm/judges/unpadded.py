"""Rows of equal length, read without padding. In: token sequences and a model. Out: one number a sequence.

No model sees a pad token, so that no number depends on what a row shares a batch with, and none on which token a model
takes for padding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

Ids = tuple[int, ...]


def read_unpadded(
    sequences: Iterable[Ids], batch_size: int, read: Callable[[torch.Tensor], torch.Tensor]
) -> dict[Ids, float]:
    """``read`` takes ids (B, T) int64, B up to ``batch_size``, and gives (B,); a sequence given twice is read once."""
    found: dict[Ids, float] = {}
    for batch in equal_lengths(set(sequences), batch_size):
        numbers: list[float] = read(torch.tensor(batch)).float().tolist()
        found |= dict(zip(batch, numbers, strict=True))
    return found


def equal_lengths(sequences: Iterable[Ids], batch_size: int) -> list[list[Ids]]:
    """Batches of one length each, shortest first; sorted, so that batches do not depend on the order given."""
    batches: list[list[Ids]] = []
    for ids in sorted(sequences, key=lambda ids: (len(ids), ids)):
        if not batches or len(batches[-1]) == batch_size or len(batches[-1][0]) != len(ids):
            batches.append([])
        batches[-1].append(ids)
    return batches
