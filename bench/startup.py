"""Start of a training run. In: a file of raw records. Out: seconds to its first optimizer step, and peak memory.

It is the real run, `crm.training.run.run_training` with the default model, in a process of its own. Seconds are counted
from the call to the end of the first optimizer step, memory up to there; then the run is given up.
"""

from __future__ import annotations

import multiprocessing
import re
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import Callback


def measure_startup(path: Path) -> dict[str, float]:
    """``{"seconds", "megabytes"}`` of a fresh process that trains on ``path`` until its first optimizer step."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_start, (str(path),))


class _FirstStepError(Exception):
    """The first optimizer step is done."""


class _StopAfterFirstStep(Callback):
    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step:
            raise _FirstStepError


def _start(path: str) -> dict[str, float]:
    from bench.run import quieten
    from crm.config import compose
    from crm.training import run_training

    quieten()
    with tempfile.TemporaryDirectory() as folder:
        words = ["data=records", f"data.path='{path}'", "trainer.progress=false"]
        config = compose("train", words, Path(folder))
        begun = time.perf_counter()
        try:
            run_training(config, [_StopAfterFirstStep()])
        except _FirstStepError:
            pass
        else:
            raise ValueError(f"{path}: the run ended without an optimizer step")
        seconds = time.perf_counter() - begun
    return {"seconds": round(seconds, 2), "megabytes": round(peak_megabytes(), 1)}


def peak_megabytes() -> float:
    """Most memory that this process has held, in 10^6 bytes.

    Linux's ``ru_maxrss`` will not do: a process that another one starts inherits the other's peak.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        (kibibytes,) = re.findall(r"^VmHWM:\s+(\d+) kB$", status.read_text(encoding="utf-8"), re.MULTILINE)
        return int(kibibytes) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
