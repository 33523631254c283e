"""Two processes are one: a sweep on two devices (gloo, CPU) leaves two folders and the numbers of single runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from crm.config import compose
from crm.model.export import load_checkpoint
from crm.training.run import run_training
from tests.conftest import TINY_MODEL, rounding

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
TINY = [
    *TINY_MODEL,
    *("loss=ranking", "loss.ties=soft", "data.train=32", "data.validation=17", "data.suite=4"),
    *("schedule.epochs=1", "schedule.validate_every=2", "schedule.save_every=2", "trainer.precision=32-true"),
    *("trainer.threads=1", "trainer.progress=false"),
]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ddp")
    two = ["trainer.devices=2", "trainer.strategy=ddp", "schedule.comparisons_per_step=8", "seed=42,43"]
    ended = subprocess.run(
        [sys.executable, str(ROOT / "train.py"), "-m", *TINY, *two, "hydra.sweep.dir=the sweep"],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return folder


def test_the_other_rank_does_not_run_the_sweep_again(sweep: Path) -> None:
    assert [path.name for path in sweep.iterdir()] == ["the sweep"], "a second tree of folders"
    jobs = sorted(path.name for path in (sweep / "the sweep").iterdir() if path.is_dir())
    assert jobs == ["0", "1"]
    for job in jobs:
        assert (sweep / "the sweep" / job / ".hydra/overrides.yaml").is_file()


def summary(folder: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return facts


def test_two_processes_give_the_numbers_of_one_with_twice_the_batch(sweep: Path, tmp_path: Path) -> None:
    both = sweep / "the sweep/0"
    alone = run_training(compose("train", [*TINY, "schedule.comparisons_per_step=8", "seed=42"], tmp_path))
    told = summary(both)
    assert told["validation_loss"] == pytest.approx(alone.validation_loss, abs=1e-4)
    assert told["validation_accuracy"] == pytest.approx(alone.validation_accuracy, abs=rounding(1.0, terms=17))
    assert (told["steps"], told["counts"]["trained_on"]) == (alone.steps, 32)
    speed = told["throughput"]
    assert speed["comparisons_per_second"] / speed["steps_per_second"] == pytest.approx(8), "those of both ranks"
    curves = [pd.read_csv(folder / "metrics.csv") for folder in (both, tmp_path)]
    for column in ("train/loss", "validation/loss", "validation/accuracy"):
        ours, theirs = (frame.dropna(subset=[column]).set_index("step")[column] for frame in curves)
        pd.testing.assert_series_equal(ours, theirs, check_exact=False, atol=1e-4, rtol=0)


def test_each_job_leaves_one_model_that_loads(sweep: Path) -> None:
    loaded = [load_checkpoint(sweep / "the sweep" / job / "model")[2] for job in ("0", "1")]
    assert [manifest["config"]["seed"] for manifest in loaded] == [42, 43]
    assert loaded[0]["digest"] != loaded[1]["digest"]
