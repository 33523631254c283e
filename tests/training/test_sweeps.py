"""Every way to run a sweep, really run once: on two devices, side by side, submitted, searched by Optuna."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import OmegaConf, open_dict

from crm.cli.mistakes import explain
from crm.config import checked, config_dir, register
from crm.config import compose as compose_checked
from crm.model.export import load_checkpoint
from crm.training.config import TrainConfig
from crm.training.sweeps import check_devices, needs_own_process, run_in_own_process
from tests.conftest import TINY_MODEL

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
TINY = [
    *(*TINY_MODEL, "trainer.progress=false", "data.train=24", "data.validation=8", "data.suite=4", "debug=fast"),
    "schedule.max_steps=2",
]


def sweep(folder: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "train.py"), "-m", *TINY, "hydra.sweep.dir=the sweep", *overrides],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def true_table(folder: Path) -> pd.DataFrame:
    """The table of a sweep, after comparing it with the summaries, job by job."""
    table = pd.read_csv(folder / "sweep.csv", skiprows=1, dtype={"job": str}).set_index("job")
    assert sorted(table.index) == sorted(path.name for path in folder.iterdir() if (path / ".hydra").is_dir())
    for name, row in table[table.status == "finished"].iterrows():
        summary = json.loads((folder / str(name) / "summary.json").read_text())
        for key in ("validation_loss", "validation_accuracy", "steps"):
            assert row[key] == pytest.approx(summary[key], rel=1e-12)
    return table


def test_the_second_rank_of_a_job_does_not_run_the_sweep_again(tmp_path: Path) -> None:
    ended = sweep(tmp_path, "trainer.devices=2", "trainer.strategy=ddp", "seed=5")
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert [path.name for path in tmp_path.iterdir()] == ["the sweep"], "a second tree of folders"
    assert true_table(tmp_path / "the sweep").status.tolist() == ["finished"]
    assert load_checkpoint(tmp_path / "the sweep/0/model")[2]["config"]["seed"] == 5


def test_jobs_side_by_side_survive_one_that_fails(tmp_path: Path) -> None:
    # A length at which no row fits is a mistake that only training meets, in the job's own process.
    ended = sweep(tmp_path, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "model.max_length=16,2048")
    folder = tmp_path / "the sweep"
    assert ended.returncode == 2
    assert "1 jobs of this sweep failed: 0" in ended.stderr and "Traceback" not in ended.stderr
    assert (folder / "sweep.md").read_text() in ended.stdout
    table = true_table(folder)
    assert table.status.tolist() == ["failed", "finished"]
    assert "no comparison left to train on" in table.reason["0"]
    assert (folder / "1/console.log").stat().st_size > 0
    assert not list(tmp_path.glob("outputs")), "a job wrote outside the sweep's folder"


def test_optuna_minimises_the_loss_of_submitted_jobs_and_goes_on_after_a_failure(tmp_path: Path) -> None:
    search = ["hydra/sweeper=optuna", "hydra.sweeper.n_trials=2", "hydra.sweeper.n_jobs=2"]
    seed = "hydra.sweeper.sampler.seed=1"  # proposes -0.017 and 0.044
    ended = sweep(tmp_path, *search, seed, "hydra/launcher=submitit_local", "optimizer.matrix_lr=interval(-0.1,0.1)")
    folder = tmp_path / "the sweep"
    assert ended.returncode == 2, ended.stderr[-3000:]
    table = true_table(folder)
    assert sorted(table.status) == ["failed", "finished"]
    assert "optimizer.matrix_lr=-0.0" in table.reason[table.status == "failed"].item()
    found = OmegaConf.load(folder / "optimization_results.yaml")
    assert found.best_value == pytest.approx(table.validation_loss.min(), rel=1e-12)
    assert found.best_params["optimizer.matrix_lr"] > 0


def in_sweep(folder: Path, *overrides: str) -> TrainConfig:
    """The settings of job 4 of a sweep, which Hydra then takes for the job at work."""
    register()
    words = ["hydra.mode=MULTIRUN", f"hydra.sweep.dir='{folder}'", *overrides]
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        settings = compose("train", overrides=words, return_hydra_config=True)
    with open_dict(settings):
        settings.run_dir = settings.hydra.runtime.output_dir = settings.hydra.runtime.cwd = str(folder)
        settings.hydra.job.num = 4
        HydraConfig.instance().set_config(settings)
        settings = settings.copy()
        del settings["hydra"]
    config: TrainConfig = checked(settings, TrainConfig)
    return config


@pytest.fixture(autouse=True)
def no_hydra_left() -> Any:
    yield
    HydraConfig.instance().cfg = None


SLURM = ("hydra/launcher=slurm", "trainer=gpu", "model.path=x")


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        (("hydra/launcher=joblib", "trainer=gpu"), "would fight for its devices"),
        (("hydra/launcher=submitit_local", "trainer.devices=2"), "would fight for its devices"),
        ((*SLURM, "trainer.nodes=2"), "nodes=1"),
    ],
)
def test_jobs_that_would_share_devices_are_an_error(tmp_path: Path, overrides: tuple[str, ...], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check_devices(in_sweep(tmp_path, *overrides))


@pytest.mark.parametrize(
    ("overrides", "own"),
    [
        ((), False),
        (("trainer.devices=2",), True),
        (("hydra/launcher=joblib", "hydra.launcher.n_jobs=1", "trainer=gpu"), True),
        ((*SLURM, "trainer.devices=2", "hydra.launcher.tasks_per_node=2"), True),
    ],
)
def test_jobs_that_have_their_devices_to_themselves_run(tmp_path: Path, overrides: tuple[str, ...], own: bool) -> None:
    config = in_sweep(tmp_path, *overrides)
    check_devices(config)
    assert needs_own_process(config.trainer.devices) is own


def test_a_job_that_is_killed_names_the_signal(tmp_path: Path) -> None:
    in_sweep(tmp_path, "hydra/launcher=joblib")
    kill = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    with pytest.raises(ValueError, match=r"job 4 was killed by SIGKILL \(out of memory\?\)"):
        run_in_own_process([sys.executable, "-c", kill])


def test_a_missing_plugin_is_named_with_what_to_install() -> None:
    register()
    with pytest.raises(HydraException) as raised, initialize_config_dir(str(config_dir()), version_base="1.3"):
        compose("train", overrides=["hydra/launcher=joblb"])
    assert "pip install 'crm-leaderboard[sweeps]'" in explain(raised.value, "train")


def test_the_settings_that_wandbs_agent_sends_are_ours(tmp_path: Path) -> None:
    settings = yaml.safe_load((ROOT / "docs/wandb_sweep.yaml").read_text())
    sent = [f"{name}={spec.get('values', [0.01])[-1]}" for name, spec in settings["parameters"].items()]
    config = compose_checked("train", sent, tmp_path)
    assert (config.loss.name, config.optimizer.matrix_lr, config.seed) == ("ranking", 0.01, 3)
    assert settings["program"] == "train.py" and settings["metric"]["name"] in ("best/loss", "validation/loss")
