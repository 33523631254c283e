"""Trainings that are killed at any moment. In: a `Task`. Out: whether every joined run is the one never stopped.

Each run is killed again and again, and resumed where a user could resume it, until it is done; then its curves and
weights are compared with those of a run of the same settings that nobody touched.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd

from bench.soak.children import ChildError, killed_after
from bench.soak.models import train
from bench.soak.stage import Found, Limit, Task
from crm.io.draws import generator
from crm.training.checkpointing import is_whole, previous

KILLS = 100
SHORT = ("data.train=48", "data.validation=8", "data.suite=4", "trainer.batch_size=4", "trainer.save_every=3")
CASES = {
    "scalar": ("loss=ranking", "trainer.epochs=6", "trainer.validate_every=6"),
    "accumulated, noised": ("loss=cls", "trainer.epochs=6", "trainer.accumulate=2", "noise=random"),
    "late": ("loss=ranking", "head=late", "head.kept=2", "head.width=4", "trainer.epochs=6"),
}


def run(task: Task) -> Found:
    """Kill `KILLS` times, over as many trainings as that takes."""
    found, draws = Found(), generator(task.seed, 0, "trainings", "soak")
    wanted, largest = task.count(KILLS), 0.0
    whole = {name: _uninterrupted(task, name) for name in list(CASES)[:wanted]}
    while found.tried["kills"] < wanted and not task.over:
        name = list(whole)[found.tried["trainings"] % len(whole)]
        reference, seconds = whole[name]
        folder = task.folder / f"killed {found.tried['trainings']}"
        found.tried["trainings"] += 1
        try:
            going = True
            while going:
                overrides = (*SHORT, *CASES[name], *(resumed := resumes(folder)))
                after = draws.uniform(0.0, seconds) if found.tried["kills"] < wanted else None
                going = killed_after(after, task.folder / "training.log", train, folder, overrides)
                found.tried["resumed"] += bool(resumed)
                found.tried["kills"] += going
                task.tell(found.tried["kills"] / wanted, f"{found.tried['kills']} kills")
            largest = max(largest, _compared(found, name, folder, reference))
        except ChildError as error:
            found.fail("did not go on", f"{name}: {error}")
        shutil.rmtree(folder, ignore_errors=True)
    found.limits = [
        Limit("kills", found.tried["kills"], at_least=wanted),
        Limit("largest difference of a curve", largest, at_most=0.0),
    ]
    found.measured = {"seconds of a training": {name: round(taken, 2) for name, (_, taken) in whole.items()}}
    return found


def _uninterrupted(task: Task, name: str) -> tuple[Path, float]:
    """Its folder, and how long it took."""
    folder, begun = task.folder / f"whole {name}", task.passed
    killed_after(None, task.folder / "training.log", train, folder, (*SHORT, *CASES[name]))
    return folder, task.passed - begun


def resumes(folder: Path) -> tuple[str, ...]:
    """What a user gives to go on: nothing where no checkpoint was reached, which begins anew."""
    last = folder / "checkpoints" / "last.ckpt"
    return ("resume=true",) if is_whole(last) or is_whole(previous(last)) else ()


def _compared(found: Found, name: str, folder: Path, reference: Path) -> float:
    """The largest difference of any number of the curves; other steps or other weights are failures."""
    ours, theirs = curves(folder), curves(reference)
    if list(ours) != list(theirs) or ours.shape != theirs.shape:
        found.fail("other steps", f"{name}: {ours.shape} rows and columns, uninterrupted {theirs.shape}")
        return 0.0
    if weights(folder) != weights(reference):
        found.fail("other weights", name)
    a, b = (frame.to_numpy(dtype=float) for frame in (ours, theirs))
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        found.fail("other steps", f"{name}: numbers are missing in another place")
        return 0.0
    return float(np.nanmax(np.abs(a - b)))


def curves(run_dir: Path) -> pd.DataFrame:
    """All that was logged but the speed, which is of a clock."""
    frame = pd.read_csv(run_dir / "metrics.csv")
    kept = sorted(name for name in frame.columns if not name.startswith("throughput/"))
    frame = frame.dropna(how="all", subset=[name for name in kept if name not in ("step", "epoch")])
    return frame[kept].sort_values(["step", "epoch", "train/loss"]).reset_index(drop=True)


def weights(run_dir: Path) -> dict[str, bytes]:
    """The exported files that hold weights."""
    return {file.name: file.read_bytes() for file in sorted((run_dir / "model").glob("*.safetensors"))}
