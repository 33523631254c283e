"""torchrun and srun start the command as it is written, and all processes share one run folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from crm.cli.words import rewrite_launched
from tests.conftest import TINY_MODEL

ROOT = Path(__file__).parents[1]


def torchrun(rank: int, **more: str) -> dict[str, str]:
    return {"TORCHELASTIC_RUN_ID": "none", "RANK": str(rank), "WORLD_SIZE": "2", **more}


def test_ranks_of_torchrun_share_a_folder_and_the_first_writes_hydras_files() -> None:
    first, second = (rewrite_launched(["seed=1"], "train", torchrun(rank)) for rank in (0, 1))
    assert first == second[:2] and first[1].startswith("hydra.run.dir=outputs/train/")
    assert second[2:] == ["hydra.output_subdir=null", "hydra.job.name=train_1"]
    assert rewrite_launched(["hydra.run.dir=x"], "train", torchrun(0)) == ["hydra.run.dir=x"]
    with pytest.raises(ValueError, match=r"several machines need one, hydra\.run\.dir=runs/mine"):
        rewrite_launched([], "train", torchrun(0, GROUP_WORLD_SIZE="2"))


def test_tasks_of_slurm_share_the_folder_of_their_job_step() -> None:
    slurm = {"SLURM_PROCID": "3", "SLURM_NTASKS": "16", "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "2"}
    assert rewrite_launched([], "train", slurm)[0] == "hydra.run.dir=outputs/train/slurm-77-2"
    for alone in ({}, {**slurm, "SLURM_NTASKS": "1"}, {**slurm, "SLURM_JOB_NAME": "interactive"}):
        assert rewrite_launched(["seed=1"], "train", alone) == ["seed=1"]


@pytest.mark.slow
def test_torchrun_trains_as_everybody_writes_it(tmp_path: Path) -> None:
    words = ["trainer=cpu", "schedule.max_steps=2", "data.train=24", "data.validation=8", "data.suite=4", *TINY_MODEL]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [*command, str(ROOT / "train.py"), *words], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr[-2000:]
    assert "2 x cpu (ddp)" in run.stdout + run.stderr
    (folder,) = (tmp_path / "outputs/train").glob("*/*")
    assert (folder / "model/crm.json").is_file() and (folder / ".hydra/overrides.yaml").is_file()
    assert sorted(path.name for path in folder.glob("*.log")) == ["train.log", "train_1.log"]
