"""The same number of batches on every rank. In: a rank's own batches. Out: them, and padding ones that count nothing.

Where weights are sharded, a forward pass is a meeting of all ranks: one with fewer rows than the others must come too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch

from crm.model.batching.batches import PaddedBatch
from crm.model.batching.packs import ForestBatch

Batch = PaddedBatch | ForestBatch


@dataclass(frozen=True)
class PaddingBatch:
    """A batch to run and forget; its rows are another rank's."""

    batch: Batch

    def to(self, device: torch.device | str, non_blocking: bool = False) -> PaddingBatch:
        """The same on another device."""
        return PaddingBatch(self.batch.to(device))


class WithPaddingBatches:
    """``own`` batches of a rank, filled up with ``padding`` to ``length``, which is the same on all ranks."""

    def __init__(self, own: Iterable[Batch], length: int, padding: Batch) -> None:
        self._own, self._length, self._padding = own, length, padding

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Batch | PaddingBatch]:
        count = 0
        for batch in self._own:
            count += 1
            yield batch
        for _ in range(self._length - count):
            yield PaddingBatch(self._padding)
