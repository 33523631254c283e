"""Every way to run a sweep, really run once: side by side, submitted, searched by Optuna, started by W&B's agent."""

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
from hydra._internal.callbacks import Callbacks
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.types import HydraContext
from omegaconf import OmegaConf, open_dict

from crm.cli.mistakes import explain
from crm.config import checked, config_dir, register
from crm.training.config import TrainConfig
from crm.training.sweeps import check_devices, needs_own_process, run_in_own_process
from tests.conftest import TINY_MODEL

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
TINY = [
    *TINY_MODEL,
    "trainer.progress=false",
    *("data.train=24", "data.validation=8", "data.suite=4", "debug=fast"),
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


def test_jobs_side_by_side_survive_one_that_fails(tmp_path: Path) -> None:
    # A length at which no row fits is a mistake that only training meets, in the job's own process.
    ended = sweep(tmp_path, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "model.max_length=16,2048")
    folder = tmp_path / "the sweep"
    assert ended.returncode == 2
    assert "1 jobs of this sweep failed: 0" in ended.stderr
    assert (folder / "sweep.md").read_text() in ended.stdout
    assert "Traceback" not in ended.stderr
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


def composed(folder: Path, *overrides: str) -> Any:
    """What Hydra composes for job 4 of a sweep, and takes for the job at work."""
    register()
    words = ["hydra.mode=MULTIRUN", f"hydra.sweep.dir='{folder}'", *overrides]
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        settings = compose("train", overrides=words, return_hydra_config=True)
    with open_dict(settings):
        settings.run_dir = settings.hydra.runtime.output_dir = settings.hydra.runtime.cwd = str(folder)
        settings.hydra.job.num = 4
    HydraConfig.instance().set_config(settings)
    return settings


def in_sweep(folder: Path, *overrides: str) -> TrainConfig:
    settings = composed(folder, *overrides).copy()
    with open_dict(settings):
        del settings["hydra"]
    config: TrainConfig = checked(settings, TrainConfig)
    return config


@pytest.fixture(autouse=True)
def no_hydra_left() -> Any:
    yield
    HydraConfig.instance().cfg = None


SLURM = ("hydra/launcher=slurm", "trainer=gpu", "model.path=x")


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (("hydra/launcher=joblib", "trainer=gpu"), "would fight for its devices"),
        (("hydra/launcher=submitit_local", "trainer.devices=2"), "would fight for its devices"),
        ((*SLURM, "trainer.devices=2"), "tasks_per_node=1"),
        ((*SLURM, "trainer.nodes=2"), "nodes=1"),
    ],
)
def test_jobs_that_would_share_devices_are_refused(tmp_path: Path, overrides: tuple[str, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_devices(in_sweep(tmp_path, *overrides))


@pytest.mark.parametrize(
    ("overrides", "own"),
    [
        ((), False),
        (("trainer.devices=2",), True),
        (("hydra/launcher=joblib",), True),
        (("hydra/launcher=joblib", "hydra.launcher.n_jobs=1", "trainer=gpu"), True),
        (SLURM, True),
        ((*SLURM, "trainer.devices=2", "hydra.launcher.tasks_per_node=2"), True),
    ],
)
def test_jobs_that_have_their_devices_to_themselves_run(tmp_path: Path, overrides: tuple[str, ...], own: bool) -> None:
    config = in_sweep(tmp_path, *overrides)
    check_devices(config)
    assert needs_own_process(config.trainer.devices) is own


def test_the_slurm_preset_reaches_sbatch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import submitit
    from submitit.slurm.slurm import SlurmExecutor

    scripts = []

    def written(self: Any, *_: Any) -> list[Any]:
        scripts.append(self._executor._make_submission_file_text("train", "id"))
        return []

    monkeypatch.setattr(SlurmExecutor, "affinity", lambda _: 2)
    monkeypatch.setattr(submitit.AutoExecutor, "map_array", written)
    settings = composed(
        *(tmp_path, "hydra/launcher=slurm", "hydra.launcher.partition=gpu", "hydra.launcher.timeout_min=90"),
        "hydra.launcher.setup=['module load cuda']",
    )
    context = HydraContext(config_loader=ConfigLoaderImpl(create_config_search_path(None)), callbacks=Callbacks())
    launcher = Plugins.instance().instantiate_launcher(
        hydra_context=context, task_function=lambda _: None, config=settings
    )
    launcher.launch([["seed=1"]], initial_job_idx=0)
    lines = scripts[0].splitlines()
    for option in ("partition=gpu", "time=90", "gpus-per-node=1", "cpus-per-task=4", "mem=32GB", "nodes=1"):
        assert f"#SBATCH --{option}" in lines
    assert "module load cuda" in lines


def test_a_job_that_is_killed_names_the_signal(tmp_path: Path) -> None:
    composed(tmp_path, "hydra/launcher=joblib")
    kill = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    with pytest.raises(ValueError, match=r"job 4 was killed by SIGKILL \(out of memory\?\)"):
        run_in_own_process([sys.executable, "-c", kill])


def test_a_missing_plugin_is_named_with_what_to_install() -> None:
    register()
    with pytest.raises(HydraException) as raised, initialize_config_dir(str(config_dir()), version_base="1.3"):
        compose("train", overrides=["hydra/launcher=joblb"])
    assert "pip install 'crm-leaderboard[sweeps]'" in explain(raised.value, TrainConfig)


def test_the_command_of_wandbs_agent_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """W&B's own code builds and starts the command, as when its server sends parameters; the run is an offline one."""
    from wandb.wandb_agent import Agent

    settings = yaml.safe_load((ROOT / "docs/wandb_sweep.yaml").read_text())
    sent = {name: {"value": spec.get("values", [0.01])[-1]} for name, spec in settings["parameters"].items()}
    sent |= {key: {"value": value} for key, value in (word.split("=") for word in TINY)}
    for name, value in {
        **{"WANDB_MODE": "offline", "WANDB_SWEEP_ID": "s1", "WANDB_RUN_ID": "", "WANDB_SWEEP_PARAM_PATH": ""},
        **{"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    agent = Agent.__new__(Agent)
    agent._sweep_command, agent._function, agent._in_jupyter = settings["command"], None, False
    agent._forward_signals, agent._run_processes = False, {}
    agent._command_run({"run_id": "r1", "program": str(ROOT / settings["program"]), "args": sent})
    assert agent._run_processes["r1"].wait() == 0
    (summary,) = tmp_path.glob("outputs/train/*/*/summary.json")
    config = json.loads(summary.read_text())["config"]
    assert (config["loss"]["name"], config["optimizer"]["matrix_lr"], config["seed"]) == ("ranking", 0.01, 3)
    (run,) = summary.parent.glob("wandb/offline-run-*-r1/*.wandb")
    assert settings["metric"]["name"].encode() in run.read_bytes()
