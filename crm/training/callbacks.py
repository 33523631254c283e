"""Callbacks of a run: its last checkpoint, Ctrl-C, lines of progress, and speed."""

from __future__ import annotations

import logging
import signal
import threading
import time
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback, Checkpoint
from lightning.pytorch.utilities import rank_zero_only
from torch import Tensor

from crm.io.files import shown_path
from crm.report.tables import number
from crm.training.console import duration
from crm.training.resume import LAST

log = logging.getLogger(__name__)
EVERY = 20
"""Optimizer steps between two measurements of speed; only there is the device waited for."""


class StoppedError(Exception):
    """Ctrl-C: the run is saved, and the message names the command that goes on."""


class LastCheckpoint(Checkpoint):
    """Saves ``last.ckpt`` every ``every`` optimizer steps (0: never), and at Ctrl-C once the current step is done.

    Where a validation follows the step it is saved after that: Lightning's `ModelCheckpoint` saves before, and a
    resumed run then skips the validation (2.6.6). A second Ctrl-C stops at once.
    """

    def __init__(self, run_dir: Path, every: int) -> None:
        super().__init__()
        self.path, self.every = run_dir / LAST, every
        self._due = self._asked = self._stop = False
        self._step = 0

    def on_train_start(self, trainer: L.Trainer, pl_module: Any) -> None:
        """Handle Ctrl-C, at which Lightning would exit amid a step."""
        self._step = trainer.global_step
        if threading.current_thread() is threading.main_thread():
            self._handler = signal.signal(signal.SIGINT, self._ask_to_stop)

    def _ask_to_stop(self, *_: Any) -> None:
        self._restore_handler()
        self._asked = True
        rank_zero_only(log.info)("stopping after this step; Ctrl-C again stops at once, without saving")

    def _restore_handler(self, *_: Any) -> None:
        if threading.current_thread() is threading.main_thread() and hasattr(self, "_handler"):
            signal.signal(signal.SIGINT, self._handler)

    on_fit_end = on_exception = _restore_handler

    def on_train_batch_start(self, trainer: L.Trainer, *_: Any) -> None:
        """Stop once the step before is saved and logged; a run that is over ends as always."""
        if self._stop:
            raise StoppedError(f"stopped; go on with: python train.py resume={shown_path(self.path.parents[1])}")

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        """Save, or leave it to `on_validation_end`."""
        if trainer.global_step == self._step:
            return  # amid accumulation
        self._step = trainer.global_step
        several = trainer.world_size > 1  # all stop at the same step
        self._stop = trainer.strategy.reduce_boolean_decision(self._asked, all=False) if several else self._asked
        self._due = self._stop or bool(self.every and self._step % self.every == 0)
        if not validation_follows(trainer):
            self.on_validation_end(trainer)

    def on_validation_end(self, trainer: L.Trainer, *_: Any) -> None:
        """Save; early stopping and the best checkpoint have had their turn."""
        if self._due:
            self._due = False
            trainer.save_checkpoint(self.path)

    def on_load_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        """Count the epoch of the checkpoint, which every save is within.

        Lightning (2.6.6) no longer does once a run has gone on from an epoch's end: resumed again, it would train an
        epoch too many.
        """
        for counts in checkpoint["loops"]["fit_loop"]["epoch_progress"].values():
            counts["ready"] = counts["started"] = counts["processed"] + 1


def validation_follows(trainer: L.Trainer) -> bool:
    """Whether Lightning validates after the training batch that has just ended."""
    if trainer.check_val_every_n_epoch is None:
        return (trainer.fit_loop.total_batch_idx + 1) % int(trainer.val_check_batch or 1) == 0
    return trainer.is_last_batch


class ValidationLines(Callback):
    """Logs loss and accuracy after every validation of the fit, so that a log file shows progress too."""

    def on_validation_end(self, trainer: L.Trainer, pl_module: Any) -> None:
        """One line, on the first rank."""
        if trainer.state.fn != "fit" or not trainer.is_global_zero:
            return
        numbers = {name: float(value) for name, value in trainer.callback_metrics.items()}
        log.info(
            "step %d of %d: train loss %.3f, validation loss %.3f, accuracy %s",
            trainer.global_step,
            pl_module.total_steps,
            numbers.get("train/loss", float("nan")),
            numbers.get("validation/loss", float("nan")),
            number(numbers.get("validation/accuracy", float("nan"))),
        )


class Throughput(Callback):
    """Logs steps, comparisons and tokens a second, of all processes together; ``mean`` has those of the whole run.

    The first step, which warms up and compiles, and validations do not count. With ``show`` the first measurement is
    shown as the time that is left. Lightning's own monitor takes every batch and every rank for equal.
    """

    def __init__(self, show: bool = False) -> None:
        self.mean: dict[str, float] = {}
        self._show = show
        self._comparisons = 0
        self._paused = self._pause_began = 0.0
        self._first: Tensor | None = None
        self._last = torch.zeros(4)

    def on_train_start(self, trainer: L.Trainer, pl_module: Any) -> None:
        """Count from here, in a resumed run too."""
        self._step = trainer.global_step

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Count; at the end of every `EVERY`-th optimizer step also measure and log."""
        self._comparisons += len(batch) if batch.weight else 0  # else another rank's row, read to keep in step
        if trainer.global_step == self._step:
            return  # amid accumulation
        self._step = trainer.global_step
        if self._first is None:
            self._first = self._last = self._mark(trainer)
        elif self._step - self._last[0] >= EVERY:
            now = self._mark(trainer)
            measured = rates(now - self._last)
            self._last = now
            # Not by the module's log: from there a number is written again with every later step of the epoch.
            for logger in trainer.loggers:
                logger.log_metrics({f"throughput/{name}": value for name, value in measured.items()}, self._step - 1)
            left, pace = pl_module.total_steps - self._step, measured["steps_per_second"]
            if self._show and left > 0 and trainer.is_global_zero:
                log.info(
                    "time: %s at most for the %d steps that are left, without validations", duration(left / pace), left
                )
            self._show = False

    def on_validation_start(self, trainer: L.Trainer, pl_module: Any) -> None:
        """Stop the clock."""
        self._pause_began = _now(trainer)

    def on_validation_end(self, trainer: L.Trainer, pl_module: Any) -> None:
        """Let it go on."""
        self._paused += _now(trainer) - self._pause_began

    def on_train_end(self, trainer: L.Trainer, pl_module: Any) -> None:
        """The mean from the end of the first step to here."""
        if self._first is not None:
            self.mean = rates(self._mark(trainer) - self._first)

    def _mark(self, trainer: L.Trainer) -> Tensor:
        """Steps, comparisons, tokens and seconds so far, (4,); all ranks must call it together."""
        seconds = _now(trainer) - self._paused
        total = torch.tensor([self._comparisons, trainer.datamodule.tokens_read], dtype=torch.float64)  # type: ignore[attr-defined]
        if trainer.world_size > 1:
            total = trainer.strategy.reduce(total.to(trainer.strategy.root_device), reduce_op="sum")  # type: ignore[assignment]
        return torch.tensor([trainer.global_step, *total.tolist(), seconds], dtype=torch.float64)


def rates(done: Tensor) -> dict[str, float]:
    """Steps, comparisons and tokens of ``done`` (4,) by its seconds; empty where nothing was done."""
    if done[0] <= 0 or done[3] <= 0:
        return {}
    names = ("steps_per_second", "comparisons_per_second", "tokens_per_second")
    return dict(zip(names, (done[:3] / done[3]).tolist(), strict=True))


def _now(trainer: L.Trainer) -> float:
    """Seconds on the clock once the device has caught up."""
    if trainer.strategy.root_device.type == "cuda":
        torch.cuda.synchronize(trainer.strategy.root_device)
    return time.perf_counter()
