"""Speed of training. In: batches as they pass. Out: ``throughput/...`` in the logs, and the mean of the run.

Steps, comparisons and tokens a second are those of all ranks together, over wall time without validation. Lightning's
own monitor is not used: it waits for the device at every batch, takes every rank and every batch for equal, and its
table of devices has peaks with sparsity for some.
"""

from __future__ import annotations

import time
from dataclasses import astuple, dataclass
from typing import Any, cast

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from torch import Tensor

from crm.training.console import show_time_left
from crm.training.flops import step_flops

EVERY = 20
"""Optimizer steps between two lines; only there is the device waited for."""
PEAK_TFLOPS = {
    "NVIDIA A100-": 312.0,
    "NVIDIA A100 ": 312.0,
    "NVIDIA H100 80GB HBM3": 989.4,
    "NVIDIA H100 PCIe": 756.0,
    "NVIDIA H100 NVL": 835.5,
    "NVIDIA H200 NVL": 835.5,
    "NVIDIA H200": 989.4,
    "NVIDIA L40S": 362.0,
    "NVIDIA GeForce RTX 4090": 165.2,
}
"""Dense bfloat16 by how a device's name begins, from NVIDIA's data sheets (which quote some doubled, for sparsity)."""


@dataclass(frozen=True)
class WorkDone:
    """What was done up to a moment; differences of two are work and the time that it took."""

    steps: float = 0.0
    comparisons: float = 0.0
    tokens: float = 0.0
    flops: float = 0.0
    seconds: float = 0.0

    def since(self, earlier: WorkDone) -> WorkDone:
        """The part after ``earlier``."""
        return WorkDone(*(now - then for now, then in zip(astuple(self), astuple(earlier), strict=True)))


def rates(done: WorkDone, peak: float | None) -> dict[str, float]:
    """Each a second of ``done``, and ``mfu`` in [0, 1] where ``peak`` FLOP/s (all ranks together) is known."""
    if done.seconds <= 0 or done.steps <= 0:
        return {}
    made = {f"{name}_per_second": getattr(done, name) / done.seconds for name in ("steps", "comparisons", "tokens")}
    return made | ({"mfu": done.flops / done.seconds / peak} if peak else {})


def peak_tflops(name: str) -> float | None:
    """Dense bfloat16 TFLOP/s of a device by its name; None where unknown (a laptop's GPU or a slice of a GPU too)."""
    if any(word in name for word in ("MIG", "Laptop", "4090 D")):
        return None
    return next((peak for start, peak in PEAK_TFLOPS.items() if name.startswith(start)), None)


class Throughput(Callback):
    """Logs `rates` over every ``every`` optimizer steps; ``mean`` has those of the whole run.

    The first step is left out of both: it warms up, and compiles. A resumed run counts from where it went on.
    With ``tell`` the first of these is told to the user as the time that is left.
    ``peak_tflops`` is that of one device; 0 looks it up, which only bfloat16 arithmetic may be measured against.
    """

    def __init__(self, *, peak_tflops: float, bfloat16: bool, every: int = EVERY, tell: bool = False) -> None:
        self._to_tell = tell
        self.mean: dict[str, float] = {}
        self._given_peak, self._bfloat16, self._every = peak_tflops, bfloat16, every
        self._comparisons = 0
        self._paused = 0.0
        self._pause_began = 0.0
        self._first: WorkDone | None = None
        self._last: WorkDone | None = None

    def on_train_start(self, trainer: L.Trainer, pl_module: Any) -> None:
        """Learn what the device could do and what a step takes."""
        peak = self._given_peak or self._looked_up(trainer.strategy.root_device)
        self._peak = peak * 1e12 * trainer.world_size if peak else None
        self._flops = step_flops(pl_module.model)
        self._steps = trainer.global_step

    def _looked_up(self, device: torch.device) -> float | None:
        if device.type != "cuda" or not self._bfloat16:
            return None
        return peak_tflops(torch.cuda.get_device_name(device))

    def on_train_batch_end(self, trainer: L.Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Count; at the end of every ``every``-th optimizer step also measure and log."""
        self._comparisons += len(batch) if batch.weight else 0  # else another rank's row, read to keep in step
        if trainer.global_step == self._steps:
            return  # in the midst of accumulation
        self._steps = trainer.global_step
        if self._first is None:
            self._first = self._last = self._now(trainer)
        elif self._last is not None and self._steps - self._last.steps >= self._every:
            now = self._now(trainer)
            measured = rates(now.since(self._last), self._peak)
            # Not by the module's log: from there a number is written again with every later step of the epoch.
            for logger in trainer.loggers:
                logger.log_metrics({f"throughput/{name}": value for name, value in measured.items()}, self._steps - 1)
            self._last = now
            if self._to_tell and trainer.is_global_zero:
                show_time_left(pl_module.total_steps - self._steps, measured["steps_per_second"])
            self._to_tell = False

    def on_validation_start(self, trainer: L.Trainer, pl_module: Any) -> None:
        """Stop the clock."""
        if trainer.state.fn == "fit":
            self._wait(trainer)
            self._pause_began = time.perf_counter()

    def on_validation_end(self, trainer: L.Trainer, pl_module: Any) -> None:
        """Let it go on."""
        if trainer.state.fn == "fit":
            self._wait(trainer)
            self._paused += time.perf_counter() - self._pause_began

    def on_train_end(self, trainer: L.Trainer, pl_module: Any) -> None:
        """The mean from the end of the first step to here."""
        if self._first is not None:
            self.mean = rates(self._now(trainer).since(self._first), self._peak)

    def _now(self, trainer: L.Trainer) -> WorkDone:
        """Sums over ranks, which must all come here at the same step."""
        self._wait(trainer)
        seconds = time.perf_counter() - self._paused
        data = trainer.datamodule  # type: ignore[attr-defined]
        own = self._flops.of(data.tokens_read, 0)
        total = torch.tensor([self._comparisons, data.tokens_read, own], dtype=torch.float64)
        if trainer.world_size > 1:
            reduced = trainer.strategy.reduce(total.to(trainer.strategy.root_device), reduce_op="sum")
            total = cast(Tensor, reduced)
        comparisons, tokens, flops = total.tolist()
        return WorkDone(trainer.global_step, comparisons, tokens, flops, seconds)

    def _wait(self, trainer: L.Trainer) -> None:
        if trainer.strategy.root_device.type == "cuda":
            torch.cuda.synchronize(trainer.strategy.root_device)


def mean_throughput(trainer: L.Trainer) -> dict[str, float]:
    """What the trainer's `Throughput` measured over the run; empty for a run of one step."""
    return next((callback.mean for callback in trainer.callbacks if isinstance(callback, Throughput)), {})  # type: ignore[attr-defined]


def told(mean: dict[str, float]) -> str:
    """``12.3 comparisons/s, 4,567 tokens/s, MFU 41 %``, for a log line; empty without a measurement."""
    if not mean:
        return ""
    text = f"{mean['comparisons_per_second']:,.1f} comparisons/s, {mean['tokens_per_second']:,.0f} tokens/s"
    return text + (f", MFU {mean['mfu']:.0%}" if "mfu" in mean else "")
