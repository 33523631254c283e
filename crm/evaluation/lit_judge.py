"""A checkpoint's judge under a trainer. In: batches of `EvaluationDataModule`. Out: readings, filed as they come.

Devices, strategy and precision are the trainer's; what is read together and what it says are the judge's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import lightning as L
from lightning.pytorch.callbacks import BasePredictionWriter
from rich.progress import Progress

from crm.evaluation.datamodule import EvaluationDataModule, RowBatch
from crm.judges import Reading
from crm.judges.crm_judge import CrmJudge
from crm.training.sharding import shard_as_asked


class LitJudge(L.LightningModule):
    """A reward model that only reads; it brings the callback that writes."""

    def __init__(self, judge: CrmJudge, progress: bool = False) -> None:
        super().__init__()
        self.judge, self.model = judge, judge.unplaced
        self.progress = progress
        self._skeletons: tuple[Any, ...] = ()

    def configure_callbacks(self) -> list[L.Callback]:
        """The writer of the data module's files."""
        return [PredictionWriter(self.progress)]

    def configure_model(self) -> None:
        """Shard the weights where the strategy has a mesh of devices (FSDP2), the first time that it asks."""
        if not self._skeletons:
            self._skeletons = shard_as_asked(self, self.model)

    def predict_step(self, batch: RowBatch, batch_idx: int, dataloader_idx: int = 0) -> list[Reading]:
        """Readings of the batch's rows; none of a batch that only keeps in step."""
        output = self.model(batch.batch)
        return self.judge.readings(batch.rows, batch.batch, output) if batch.rows else []


class PredictionWriter(BasePredictionWriter):
    """Appends what a batch gave to its suite's prediction file; a bar on the first process, where it is wanted."""

    def __init__(self, progress: bool) -> None:
        super().__init__("batch")
        self._wanted = progress
        self._bar = Progress(disable=True)
        self._tasks: list[Any] = []

    def on_predict_start(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Show what this process has to read, suite by suite."""
        self._bar = Progress(disable=not (self._wanted and trainer.is_global_zero), transient=True)
        files = _data(trainer).files
        totals = (sum(map(len, file.portions())) if not self._bar.disable else 0 for file in files)
        self._tasks = [self._bar.add_task(f"{file.suite:>12}", total=n) for file, n in zip(files, totals, strict=True)]
        self._bar.start()

    def write_on_batch_end(
        self,
        trainer: L.Trainer,
        pl_module: L.LightningModule,
        prediction: list[Reading],
        batch_indices: Sequence[int] | None,
        batch: RowBatch,
        batch_idx: int,
        dataloader_idx: int,
    ) -> None:
        """Append; rows know their ids, so that ``batch_indices`` say nothing."""
        _data(trainer).files[dataloader_idx].append(prediction)
        self._bar.advance(self._tasks[dataloader_idx], len(prediction))

    def on_predict_end(self, trainer: L.Trainer, pl_module: L.LightningModule) -> None:
        """Take the bar away."""
        self._bar.stop()

    def on_exception(self, trainer: L.Trainer, pl_module: L.LightningModule, exception: BaseException) -> None:
        """Take the bar away."""
        self._bar.stop()


def _data(trainer: L.Trainer) -> EvaluationDataModule:
    return cast(EvaluationDataModule, trainer.datamodule)  # type: ignore[attr-defined]
