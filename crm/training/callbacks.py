"""Callbacks of a run (its last checkpoint, Ctrl-C, progress, speed) and the few lines that it logs."""

from __future__ import annotations

import logging
import math
import signal
import threading
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback, Checkpoint
from lightning.pytorch.plugins.io import TorchCheckpointIO
from lightning.pytorch.utilities import rank_zero_only
from lightning.pytorch.utilities.model_summary.model_summary import get_human_readable_count
from torch import Tensor, nn

from crm.io.files import drafted, shown_path, typed_path
from crm.io.rows import listed
from crm.report.tables import number
from crm.training.config import TrainConfig
from crm.training.resume import BEST, LAST

log = logging.getLogger(__name__)
SLOW_FOR_ADAPTERS = 2e-5
LARGE = 500_000_000
"""Weights from which on a CPU is no place to train."""
NOISE = ("💡 Tip", "GPU available", "TPU available", "HPU available", "`weights_only` was not")
"""Beginnings of Lightning's messages that are no news (2026-11, Lightning 2.6.6)."""
WARNINGS = (
    r".*treespec, LeafSpec.*is deprecated",  # Lightning calls a function that torch 2.13 deprecates
    r"Experiment logs directory .* exists and is not empty",
    r"FSDP2-wrapped module .* returned a view tensor",  # nothing changes it in place
    r"The '\w+_dataloader' does not have many workers",  # our loaders hold finished tensors
    r"It is recommended to use `self.log\('validation/",  # these numbers are the same on every rank
    r"Couldn't infer the batch indices fetched from your dataloader",  # our rows know their ids
)
"""Warnings of Lightning 2.6.6 and torch 2.13 (2026-11) that ask nothing of a user."""


class StoppedError(Exception):
    """Ctrl-C: the run is saved, and the message names the command that goes on."""


class Checkpoints(Checkpoint):
    """``best.ckpt``, the weights of the lowest validation loss, and ``last.ckpt``, from which a run goes on.

    The last is saved every ``every`` optimizer steps (0: never), and once the current step is done at Ctrl-C, or at
    SIGTERM, which clusters send; one to any of several processes stops all. A second Ctrl-C stops at once.

    Where a validation follows the step it is saved after that: Lightning's `ModelCheckpoint` saves before, and a
    resumed run then skips the validation (2.6.6). It also forgets the best score where the run folder was moved.
    """

    def __init__(self, run_dir: Path, every: int) -> None:
        super().__init__()
        self.run_dir, self.every = run_dir, every
        self.best: dict[str, float] = {}
        """What the best validation measured, by name."""
        self._due = self._asked = self._stop = False
        self._step = 0
        self._handlers: dict[int, Any] = {}

    def state_dict(self) -> dict[str, float]:
        """Goes into ``last.ckpt``."""
        return self.best

    def load_state_dict(self, state_dict: dict[str, float]) -> None:
        """The best before a run was stopped."""
        self.best = state_dict

    def setup(self, *_: Any, **__: Any) -> None:
        """Note the handlers: Lightning sets its own after this, and takes them away before `teardown`."""
        if threading.current_thread() is threading.main_thread():
            self._handlers = {kind: signal.getsignal(kind) for kind in (signal.SIGINT, signal.SIGTERM)}

    def on_train_start(self, trainer: L.Trainer, pl_module: Any) -> None:
        """Handle Ctrl-C, at which Lightning would exit amid a step."""
        self._step = trainer.global_step
        for kind in self._handlers:
            signal.signal(kind, self._ask_to_stop)

    def _ask_to_stop(self, *_: Any) -> None:
        if self._asked:
            return  # a cluster may send SIGTERM twice
        self._asked = True
        signal.signal(signal.SIGINT, self._handlers.pop(signal.SIGINT, signal.default_int_handler))
        rank_zero_only(log.info)("stopping after this step; once more (Ctrl-C) stops at once, without saving")

    def teardown(self, *_: Any, **__: Any) -> None:
        """Handle Ctrl-C as before."""
        for kind, handler in self._handlers.items():
            signal.signal(kind, handler)
        self._handlers = {}

    on_exception = teardown

    def on_train_batch_start(self, trainer: L.Trainer, *_: Any) -> None:
        """Stop once the step before is saved and logged; a run that is over ends as always."""
        if self._stop:
            raise StoppedError(f"stopped; go on with: python train.py resume={typed_path(self.run_dir)}")

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        """Save, or leave it to `on_validation_end`."""
        if trainer.global_step == self._step:
            return  # amid accumulation
        self._step = trainer.global_step
        several = trainer.world_size > 1  # all stop at the same step
        self._stop = trainer.strategy.reduce_boolean_decision(self._asked, all=False) if several else self._asked
        self._due = self._stop or bool(self.every and self._step % self.every == 0)
        if not validation_follows(trainer):
            self._save_last(trainer)

    def on_validation_end(self, trainer: L.Trainer, *_: Any) -> None:
        """Save what is better and what is due; early stopping has had its turn."""
        if trainer.state.fn != "fit":
            return
        found = {name: float(trainer.callback_metrics[name]) for name in ("validation/loss", "validation/accuracy")}
        if found["validation/loss"] < self.best.get("validation/loss", math.inf):
            self.best = found
            trainer.save_checkpoint(self.run_dir / BEST, weights_only=True)
        self._save_last(trainer)

    def _save_last(self, trainer: L.Trainer) -> None:
        if self._due:
            self._due = False
            trainer.save_checkpoint(self.run_dir / LAST)

    def on_load_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        """Count the epoch of the checkpoint, which every save is within.

        Lightning (2.6.6) no longer does once a run has gone on from an epoch's end: resumed again, it would train an
        epoch too many.
        """
        for counts in checkpoint["loops"]["fit_loop"]["epoch_progress"].values():
            counts["ready"] = counts["started"] = counts["processed"] + 1


class WholeCheckpoints(TorchCheckpointIO):
    """Writes a checkpoint beside the old one, and moves it there in one step.

    Lightning (2.6.6) writes into the system's temporary folder and copies from there over the old one, if that is on
    another disk: killed amid it, a run had none.
    """

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Options of storage are for remote ones, which these are not."""
        with drafted(Path(path)) as draft:
            torch.save(checkpoint, draft)


def validation_follows(trainer: L.Trainer) -> bool:
    """Whether Lightning validates after the training batch that has just ended."""
    if trainer.check_val_every_n_epoch is not None:
        return trainer.is_last_batch
    return (trainer.fit_loop.total_batch_idx + 1) % int(trainer.val_check_batch or 1) == 0


class ValidationLines(Callback):
    """Logs loss and accuracy after every validation of the fit, so that a log file shows progress too."""

    def on_validation_end(self, trainer: L.Trainer, pl_module: Any) -> None:
        """One line, on the first rank."""
        if trainer.state.fn != "fit" or not trainer.is_global_zero:
            return
        names = ("train/loss", "validation/loss", "validation/accuracy")
        train, loss, accuracy = (float(trainer.callback_metrics.get(name, float("nan"))) for name in names)
        log.info(
            f"step {trainer.global_step} of {pl_module.total_steps}: train loss {train:.3f}, "
            f"validation loss {loss:.3f}, accuracy {number(accuracy)}"
        )


class Throughput(Callback):
    """Steps, comparisons and tokens a second over the whole run, of all processes together, in ``mean``.

    The first step, which warms up and compiles, and validations do not count. Each step waits for its gradient norm,
    and each validation for its loss, so that the clock needs to wait for no device.
    """

    def __init__(self) -> None:
        self.mean: dict[str, float] = {}
        self._comparisons = self._tokens = self._first = 0
        self._paused = 0.0
        self._begin: Tensor | None = None

    def on_train_start(self, trainer: L.Trainer, pl_module: Any) -> None:
        """Count from here, in a resumed run too."""
        self._first = trainer.global_step

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Count; the clock starts after the first optimizer step."""
        self._comparisons += len(batch) if batch.weight else 0  # else another rank's row, read to keep in step
        self._tokens += batch.tokens
        if self._begin is None and trainer.global_step > self._first:
            self._begin = self._so_far(trainer)

    def on_validation_start(self, trainer: L.Trainer, pl_module: Any) -> None:
        """Stop the clock."""
        self._paused -= time.perf_counter()

    def on_validation_end(self, trainer: L.Trainer, pl_module: Any) -> None:
        """Let it go on."""
        self._paused += time.perf_counter()

    def on_train_end(self, trainer: L.Trainer, pl_module: Any) -> None:
        """The mean from the end of the first step to here."""
        if self._begin is None or trainer.global_step == self._first + 1:
            return
        steps, comparisons, tokens, seconds = (self._so_far(trainer) - self._begin).tolist()
        own = torch.tensor([comparisons, tokens], dtype=torch.float64, device=trainer.strategy.root_device)
        comparisons, tokens = trainer.strategy.reduce(own, reduce_op="sum").tolist()
        done = {"steps": steps, "comparisons": comparisons, "tokens": tokens}
        self.mean = {f"{name}_per_second": count / seconds for name, count in done.items()}

    def _so_far(self, trainer: L.Trainer) -> Tensor:
        """Steps, comparisons, tokens and seconds of this process, (4,) float64."""
        seconds = time.perf_counter() - self._paused
        return torch.tensor([trainer.global_step, self._comparisons, self._tokens, seconds], dtype=torch.float64)


def quieten() -> None:
    """Hide, one by one, messages that are no news to a user. Calling it again changes nothing."""
    for name in ("utilities.rank_zero", "trainer.connectors.checkpoint_connector"):
        logging.getLogger(f"lightning.pytorch.{name}").addFilter(_is_news)  # the same filter counts once
    # Lightning prints through handlers of its own beside Hydra's, so that every message would come twice.
    for name in ("lightning", "lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True
    for message in WARNINGS:
        warnings.filterwarnings("ignore", message=message)


def _is_news(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(NOISE)


def show_counts(splits: Mapping[str, int], epoch: Mapping[str, int]) -> None:
    """Rows of the source, and of an epoch of training: trained on, and dropped and why."""
    log.info("source: %s", listed(splits))
    dropped = ("ties_dropped", "without_criteria", "same_criteria", "overlong")
    left_out = listed({name: epoch.get(name, 0) for name in dropped}) or "none"
    log.info(f"an epoch: {epoch['trained_on']:,} comparisons to train on; left out: {left_out}")


def show_run(config: TrainConfig, model: nn.Module, rows: int, steps: int) -> None:
    """One line on what is trained, on what, where, and into which folder; warnings for what will take days."""
    trainer, data = config.trainer, config.data
    weights = sum(p.numel() for p in model.parameters())
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    devices = trainer.processes
    log.info(
        f"train: {config.model.name} ({get_human_readable_count(weights)} weights, "
        f"{'all' if trained == weights else get_human_readable_count(trained)} trained), head={config.head.name} "
        f"loss={config.loss.name}; data {data.path or data.name}"
        f"{' (simulated templates)' if data.name == 'simulation' else ''}, {rows:,} comparisons an epoch; "
        f"{devices} x {trainer.accelerator}{f' ({trainer.strategy})' if devices > 1 else ''}, {trainer.precision}; "
        f"{config.schedule.comparisons_per_step} comparisons a step, at most {steps:,} steps; "
        f"into {shown_path(config.run_dir)}"
    )
    if trainer.accelerator == "cpu" and weights > LARGE:
        log.warning(
            f"train: {config.model.name} trains on a CPU, which takes days: torch {torch.__version__} sees no GPU; "
            "use a CUDA build of torch (make TORCH=cuda install) or another machine"
        )
    if config.model.lora_rank and config.optimizer.lr <= SLOW_FOR_ADAPTERS:
        log.warning(
            f"optimizer.lr={config.optimizer.lr:g} is for all weights; adapters (model.lora_rank) learn slowly at it, "
            "try optimizer.lr=1e-4"
        )
