"""What a validation pass said of every row. In: a trainer that validates. Out: logits by row, of all processes.

So a row is read once, for the numbers of a run and for the table of its worst pairs.
"""

from __future__ import annotations

from typing import Any, cast

import lightning as L
import torch.distributed as dist
from lightning.pytorch.callbacks import Callback
from torch import Tensor

from crm.model.encoding import EncodedComparison
from crm.training.datamodule import PreferenceDataModule


class KeepLogits(Callback):
    """Keeps the logits, (B,) of each batch, that `LitRewardModel.validation_step` returns in the latest pass."""

    def __init__(self) -> None:
        self._own: list[tuple[int, float]] = []  # number of a row, and its logit

    def on_validation_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Forget the pass before."""
        self._own = []

    def on_validation_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Keep what this process read itself; a batch that only keeps in step gives nothing."""
        if isinstance(outputs, Tensor):
            rows = _data(trainer).validation_batches[batch_idx]
            self._own += zip(rows, outputs.tolist(), strict=True)

    def gather(self, trainer: L.Trainer) -> list[tuple[EncodedComparison, float]]:
        """Every row of the pass that counts and its logit, in order, on all processes; all must call it together."""
        shares: list[Any] = [self._own]
        if dist.is_available() and dist.is_initialized():
            shares = [None] * dist.get_world_size()
            dist.all_gather_object(shares, self._own)
        logits = {number: logit for share in shares for number, logit in share}
        data = _data(trainer)
        rows = data.validation_rows
        assert sorted(logits) == list(range(len(rows))), "each row is read once"
        return [(row, logits[number]) for number, row in enumerate(rows) if data.counts_in_loss(row)]


def _data(trainer: L.Trainer) -> PreferenceDataModule:
    return cast(PreferenceDataModule, trainer.datamodule)  # type: ignore[attr-defined]
