"""Checkpoints to resume from. In: Lightning's training state. Out: files that survive a kill, a full disk, a bad bit.

A checkpoint is written beside its target, flushed, digested and moved into place; the one before stays as
``<name>.previous``. Loading checks the digest and falls back to the previous file. Nothing is unpickled.
"""

from __future__ import annotations

import logging
import os
import pickle
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from lightning.pytorch.callbacks import Checkpoint, ModelCheckpoint
from lightning.pytorch.utilities import rank_zero_only
from torch import Tensor

from crm.io.files import shown_path
from crm.model.manifest import sha256

log = logging.getLogger(__name__)


class SafeCheckpointIO(TorchCheckpointIO):
    """Atomic writes with a sha256 sidecar, verified reads."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: Any = None
    ) -> None:
        """Write ``path`` so that at every moment it or its previous version is whole."""
        target = Path(path)
        temporary = target.with_name(f".{target.name}.tmp")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                torch.save(checkpoint, file)
                file.flush()
                os.fsync(file.fileno())
        except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError of its zip writer
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise ValueError(
                f"checkpoint {target}: could not be written ({' '.join(str(error).split())[:120]}); the one before is "
                "whole. Make room or choose another hydra.run.dir, then resume=true"
            ) from error
        digest = sha256(temporary)
        if target.exists():
            target.replace(previous(target))
            if digest_of(target).exists():
                digest_of(target).replace(digest_of(previous(target)))
        digest_of(target).write_text(digest)
        temporary.replace(target)
        _flush_folder(target.parent)

    def load_checkpoint(self, path: str | os.PathLike[str], map_location: Any = None, weights_only: Any = None) -> Any:
        """The checkpoint, or the previous one where this one is damaged. Raises ``ValueError`` when both are."""
        whole = whole_version(Path(path))
        try:
            return torch.load(whole, map_location=map_location or "cpu", weights_only=True)
        except pickle.UnpicklingError:
            raise ValueError(f"checkpoint {whole}: holds more than weights and numbers; refused") from None

    def remove_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Remove the file, its digest, and its previous version."""
        for candidate in (Path(path), previous(Path(path))):
            candidate.unlink(missing_ok=True)
            digest_of(candidate).unlink(missing_ok=True)


def previous(path: Path) -> Path:
    """Where the version before ``path`` is kept."""
    return path.with_name(f"{path.name}.previous")


def whole_version(path: Path) -> Path:
    """``path``, or the version before it where this one is damaged. Raises ``ValueError`` when both are."""
    for candidate in (path, previous(path)):
        if is_whole(candidate):
            if candidate != path:
                log.warning("%s is damaged; going on from %s", path, candidate)
            return candidate
    raise ValueError(f"checkpoint {path}: missing or damaged, and so is its previous version; start a new run")


def digest_of(path: Path) -> Path:
    """Where the sha256 of ``path`` is kept."""
    return path.with_name(f"{path.name}.sha256")


def is_whole(path: Path) -> bool:
    """Whether the file is there and has the digest it was written with.

    A kill may fall between moving a file to its previous name and moving its digest along: either digest will do.
    """
    if not path.is_file():
        return False
    owner = path.with_name(path.name.removesuffix(".previous"))
    known = {file.read_bytes().strip() for file in (digest_of(path), digest_of(owner)) if file.is_file()}
    return bool(known) and sha256(path).encode() in known


def _flush_folder(folder: Path) -> None:
    """Make renames in a folder durable, where the platform lets a folder be opened."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class BestCheckpoint(ModelCheckpoint):
    """Lightning's best checkpoint, which a number that is not finite never is, and which survives a moved folder."""

    def check_monitor_top_k(self, trainer: L.Trainer, current: Tensor | None = None) -> bool:
        """Whether ``current`` is better than what is kept; where nothing is kept yet, Lightning would take a NaN."""
        return current is not None and bool(torch.isfinite(current)) and super().check_monitor_top_k(trainer, current)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up the best score with its file, which lies in this run's folder wherever that was before.

        Lightning drops the score where the folder has another path now, and a worse model would then be exported.
        """
        folder = Path(str(self.dirpath))
        best = folder / Path(state_dict["best_model_path"]).name
        if not state_dict["best_model_path"]:
            return  # no validation yet
        if not is_whole(best):
            log.warning("%s is missing or damaged: the best is looked for anew from this step on", best)
            return
        score = state_dict["best_model_score"]
        super().load_state_dict(
            {
                **state_dict,
                "dirpath": self.dirpath,
                "best_model_path": str(best),
                "kth_best_model_path": str(best),
                "best_k_models": {str(best): score},
            }
        )


class LastCheckpoint(Checkpoint):
    """Saves ``last.ckpt`` every ``every`` optimizer steps, in a place from which a run goes on as if never stopped.

    Ctrl-C saves it too, once the step at work is done, and then raises ``KeyboardInterrupt`` with the command that goes
    on; a second one does not wait. With ``every=0`` nothing else is saved.

    Where a validation follows the step, it is saved after that validation: saved before, a resumed run would skip the
    validation, and with it a best checkpoint or a step towards early stopping.
    """

    def __init__(self, path: Path, every: int) -> None:
        super().__init__()
        self.path, self.every = path, every
        self._due, self._saved_at = False, 0
        self._stop, self._seen = False, 0

    def on_fit_start(self, trainer: L.Trainer, *_: Any) -> None:
        """Take Ctrl-C from Lightning, which would end the process where it is. Signals go to main threads alone."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._ask_to_stop)

    def _ask_to_stop(self, *_: Any) -> None:
        if self._stop:
            raise KeyboardInterrupt
        self._stop = True
        rank_zero_only(log.info)("stopping after this step; Ctrl-C again stops at once, without saving")

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        """Save, or leave it to `on_validation_end`."""
        step, done = trainer.global_step, trainer.global_step != self._seen
        self._seen = step
        if done and trainer.world_size > 1:  # all stop at the same step
            self._stop = trainer.strategy.reduce_boolean_decision(self._stop, all=False)
        regular = self.every and not step % self.every and step != self._saved_at
        if not regular and not (self._stop and done):
            return
        self._saved_at, self._due = step, True
        if not validation_follows(trainer):
            trainer._logger_connector.update_train_step_metrics()
            self._save(trainer)

    def on_validation_end(self, trainer: L.Trainer, *_: Any) -> None:
        """Save what was due; early stopping and the best checkpoint have had their turn."""
        if self._due:
            self._save(trainer)

    def _save(self, trainer: L.Trainer) -> None:
        """Once all up to here is written down: Lightning does so later, and a kill in between would lose those rows."""
        self._due = False
        loop = trainer.fit_loop
        if loop.epoch_loop.batch_progress.is_last_batch:
            trainer._logger_connector.log_metrics(loop.epoch_loop._results.metrics(on_step=False)["log"])
        trainer.save_checkpoint(self.path)
        if self._stop:
            raise KeyboardInterrupt(
                f"stopped; go on with: python train.py resume={shown_path(self.path.parent.parent)}"
            )

    def state_dict(self) -> dict[str, Any]:
        """Kept in the checkpoint, so that the step it was saved at is not saved twice."""
        return {"saved_at": self._saved_at}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore `state_dict`."""
        self._saved_at = state_dict["saved_at"]

    def on_load_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        """Count the epoch in which it was saved: every save is within one.

        Lightning (2.6.6) no longer counts it once a run has gone on from an epoch's end. Such a run, killed behind its
        last step and resumed, trained an epoch too many.
        """
        progress = checkpoint.get("loops", {}).get("fit_loop", {}).get("epoch_progress", {})
        for counts in progress.values():
            counts["ready"] = counts["started"] = counts["processed"] + 1


def epoch_was_over(checkpoint: dict[str, Any]) -> bool:
    """Whether a checkpoint was saved behind the last batch of an epoch; one without loops was not."""
    loop = checkpoint.get("loops", {}).get("fit_loop", {})
    return bool(loop.get("epoch_loop.batch_progress", {}).get("is_last_batch"))


def validation_follows(trainer: L.Trainer) -> bool:
    """Whether Lightning validates after the training batch that has just ended."""
    loop = trainer.fit_loop
    if trainer.check_val_every_n_epoch is None:
        assert trainer.val_check_batch is not None
        return bool((loop.total_batch_idx + 1) % trainer.val_check_batch == 0)
    return bool(loop.epoch_loop.batch_progress.is_last_batch)
