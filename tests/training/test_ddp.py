"""A sweep on two devices (gloo, CPU), whose second process Lightning starts: one folder a job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from crm.model.export import load_checkpoint
from tests.conftest import TINY_MODEL

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
TINY = [
    *TINY_MODEL,
    *("loss=ranking", "loss.ties=soft", "data.train=16", "data.validation=5", "data.suite=4"),
    *("schedule.epochs=1", "schedule.validate_every=2", "schedule.save_every=2", "trainer.precision=32-true"),
    *("trainer.threads=1", "trainer.progress=false"),
]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ddp")
    two = ["trainer.devices=2", "trainer.strategy=ddp", "schedule.comparisons_per_step=8", "seed=42"]
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
    assert jobs == ["0"]
    assert (sweep / "the sweep/0" / ".hydra/overrides.yaml").is_file()


def test_the_job_leaves_one_model_and_the_speed_of_both_ranks(sweep: Path) -> None:
    manifest = load_checkpoint(sweep / "the sweep/0/model")[2]
    told = json.loads((sweep / "the sweep/0/summary.json").read_text())
    assert (manifest["config"]["seed"], told["digest"], told["counts"]["trained_on"]) == (42, manifest["digest"], 16)
    speed = told["throughput"]
    assert speed["comparisons_per_second"] / speed["steps_per_second"] == pytest.approx(8), "those of both ranks"
