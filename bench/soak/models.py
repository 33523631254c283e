"""The model of a soak. In: a folder. Out: a checkpoint, trained for seconds on the simulated arena: a late head.

A page ranks by an index of it, the reward server scores with it, and the evaluation that is killed reads with it.
"""

from __future__ import annotations

from pathlib import Path

from bench.soak.children import killed_after
from crm.config import compose
from crm.training import run_training

SIZES = ("model.hidden_size=16", "model.layers=2", "model.heads=2", "model.vocab_size=400")
"""Some thousand weights: what is soaked is everything around them."""
QUIET = ("trainer.precision=32-true", "trainer.progress=false", "trainer.threads=1")
LEARNS = ("loss=ranking", "head=late", "head.kept=2", "head.width=4", "data.train=128", "data.validation=8")


def train(run_dir: Path, overrides: tuple[str, ...]) -> None:
    """One training, in this process."""
    run_training(compose("train", [*SIZES, *QUIET, *overrides], run_dir))


def trained(folder: Path) -> Path:
    """The checkpoint, by a training in a process of its own."""
    overrides = (*LEARNS, "data.suite=4", "trainer.epochs=2", "trainer.batch_size=8")
    folder.mkdir(parents=True, exist_ok=True)
    killed_after(None, folder / "training.log", train, folder / "run", overrides)
    return folder / "run" / "model"
