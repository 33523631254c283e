"""Training runs that are killed, for tests: small ones, what kills them, and what is compared afterwards."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from lightning.pytorch.callbacks import Callback

import crm.training.building
from crm.config import compose
from crm.model.batching.plans import Packing
from crm.training.checkpointing import SafeCheckpointIO
from crm.training.run import TrainingOutcome, run_training
from tests.conftest import TINY_MODEL

TINY = (
    *TINY_MODEL,
    "loss=ranking",
    *("data.train=48", "data.validation=8", "data.suite=4", "schedule.epochs=2", "schedule.comparisons_per_step=4"),
    *("trainer.precision=32-true", "trainer.progress=false", "trainer.threads=1", "schedule.save_every=3"),
)
EVERY_STEP = ("schedule.validate_every=6", "schedule.patience=30")
FORK = multiprocessing.get_context("fork")
"""torch is imported already, so that a killed run costs its steps and not its imports."""


class Read(Callback):
    """Notes which votes every batch was of: epoch, batch and ids, a line each."""

    def __init__(self, file: Path) -> None:
        self.file, self.names = file, dict[bytes, list[str]]()
        collate = Packing.collate

        def noted(packing: Packing, rows: Any, weight: float = 1.0) -> Any:
            batch = collate(packing, rows, weight)
            self.names[batch.input_ids.numpy().tobytes()] = [row.comparison.preference_id for row in rows]
            return batch

        Packing.collate = noted  # type: ignore[method-assign]
        self.restore = lambda: setattr(Packing, "collate", collate)

    def on_train_batch_end(self, trainer: Any, _module: Any, _outputs: Any, batch: Any, batch_idx: int) -> None:
        names = self.names.get(batch.input_ids.numpy().tobytes(), [])
        with self.file.open("a") as file:
            file.write(f"{trainer.current_epoch} {batch_idx} {' '.join(names)}\n")


def train(run_dir: Path, *overrides: str) -> TrainingOutcome:
    run_dir.mkdir(parents=True, exist_ok=True)
    read = Read(run_dir / "read.txt")
    try:
        return run_training(compose("train", [*TINY, *overrides], run_dir), [read])
    finally:
        read.restore()


def votes_read(run_dir: Path) -> dict[int, list[str]]:
    """The votes of every epoch. What was read again after a kill counts once, as its steps do."""
    batches = {}
    for line in (run_dir / "read.txt").read_text().splitlines():
        epoch, batch, *names = line.split()
        batches[int(epoch), int(batch)] = names
    return {
        epoch: sorted(name for (of, _), names in batches.items() if of == epoch for name in names)
        for epoch, _ in batches
    }


def train_with_dropout(run_dir: Path, *overrides: str) -> TrainingOutcome:
    """As `train`, with dropout in the attention, which draws from torch's own generator."""
    plain = crm.training.building.build_tiny_backbone

    def with_dropout(*arguments: Any) -> Any:
        backbone = plain(*arguments)
        for layer in backbone.layers:
            layer.self_attn.attention_dropout = 0.3
        return backbone

    crm.training.building.build_tiny_backbone = with_dropout  # type: ignore[assignment]
    try:
        return train(run_dir, *overrides)
    finally:
        crm.training.building.build_tiny_backbone = plain


def kill_at(step: int, run_dir: Path, target: Any, *overrides: str) -> None:
    """Start a run in a process of its own and kill it once its metrics show ``step``."""
    process = FORK.Process(target=target, args=(run_dir, *overrides))
    process.start()
    deadline = time.monotonic() + 60
    while last_step(run_dir) < step:
        assert process.is_alive(), "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL


def last_step(run_dir: Path) -> int:
    file = run_dir / "metrics.csv"
    lines = file.read_text().splitlines()[1:] if file.exists() else []
    steps = [line.split(",")[1] for line in lines if line.count(",") > 1]
    return max((int(step) for step in steps if step.isdigit()), default=-1)


def curves(run_dir: Path) -> pd.DataFrame:
    """All that was logged but the speed, which is of a clock and begins anew with a resumed run."""
    frame = pd.read_csv(run_dir / "metrics.csv")
    kept = sorted(name for name in frame.columns if not name.startswith("throughput/"))
    frame = frame.dropna(how="all", subset=[name for name in kept if name not in ("step", "epoch")])
    return frame[kept].astype({"epoch": float}).sort_values(["step", "epoch", "train/loss"]).reset_index(drop=True)


def assert_same_run(resumed: Path, uninterrupted: Path) -> None:
    pd.testing.assert_frame_equal(curves(resumed), curves(uninterrupted), check_exact=True)
    ours, theirs = (
        SafeCheckpointIO().load_checkpoint(run / "checkpoints/last.ckpt") for run in (resumed, uninterrupted)
    )
    for name, weights in theirs["state_dict"].items():
        assert torch.equal(ours["state_dict"][name], weights), name
    assert ours["global_step"] == theirs["global_step"]
