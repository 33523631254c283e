"""Every way to run a sweep, really run once, and its table: every job has its numbers or the reason it has none."""

import json
import math
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
from omegaconf import OmegaConf, open_dict
from scipy import stats

from crm.config import checked, config_dir, schema
from crm.config import compose as compose_checked
from crm.model.export import load_checkpoint
from crm.training.config import TrainConfig
from crm.training.sweep_table import job_table, seed_table, write_sweep_tables
from crm.training.sweeps import needs_own_process, note_failure, read_jobs, run_in_own_process
from tests.conftest import TINY_MODEL

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


@pytest.mark.slow
def test_the_second_rank_of_a_job_does_not_run_the_sweep_again(tmp_path: Path) -> None:
    recipe = tmp_path / "recipes/experiment/mine.yaml"
    recipe.parent.mkdir(parents=True)
    recipe.write_text("# @package _global_\nseed: 5\n")
    ended = sweep(tmp_path, "trainer.devices=2", "trainer.strategy=ddp", "experiment=mine", "--config-dir", "recipes")
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["recipes", "the sweep"], "a second tree of folders"
    assert true_table(tmp_path / "the sweep").status.tolist() == ["finished"]
    assert load_checkpoint(tmp_path / "the sweep/0/model")[2]["config"]["seed"] == 5


@pytest.mark.slow
def test_a_job_survives_one_that_fails(tmp_path: Path) -> None:
    # A length at which no row fits is a mistake that only training meets.
    ended = sweep(tmp_path, "model.max_length=16,2048")
    folder = tmp_path / "the sweep"
    assert ended.returncode == 2
    assert "1 jobs of this sweep failed: 0" in ended.stderr and "Traceback" not in ended.stderr
    assert (folder / "sweep.md").read_text() in ended.stdout
    table = true_table(folder)
    assert table.status.tolist() == ["failed", "finished"]
    assert "no comparison left to train on" in table.reason["0"]
    assert not list(tmp_path.glob("outputs")), "a job wrote outside the sweep's folder"


@pytest.mark.slow
def test_optuna_minimises_the_loss_and_goes_on_after_a_failure(tmp_path: Path) -> None:
    search = ["hydra/sweeper=optuna", "hydra.sweeper.n_trials=2", "hydra.sweeper.n_jobs=2"]
    seed = "hydra.sweeper.sampler.seed=1"  # proposes -0.017 and 0.044
    ended = sweep(tmp_path, *search, seed, "optimizer.matrix_lr=interval(-0.1,0.1)")
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
    schema("train")
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


@pytest.mark.parametrize(
    ("overrides", "own"),
    [
        ((), False),
        (("trainer.devices=2",), True),
        (("hydra/launcher=slurm", "trainer=gpu", "model.path=x", "trainer.devices=2"), True),
    ],
)
def test_jobs_that_have_their_devices_to_themselves_run(tmp_path: Path, overrides: tuple[str, ...], own: bool) -> None:
    assert needs_own_process(in_sweep(tmp_path, *overrides).trainer.devices) is own


@pytest.mark.slow
def test_a_job_that_is_killed_names_the_signal(tmp_path: Path) -> None:
    in_sweep(tmp_path)
    kill = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    with pytest.raises(ValueError, match=r"job 4 was killed by SIGKILL \(out of memory\?\)"):
        run_in_own_process([sys.executable, "-c", kill])


def test_the_settings_that_wandbs_agent_sends_are_ours(tmp_path: Path) -> None:
    settings = yaml.safe_load((ROOT / "docs/wandb_sweep.yaml").read_text())
    sent = [f"{name}={spec.get('values', [0.01])[-1]}" for name, spec in settings["parameters"].items()]
    config = compose_checked("train", sent, tmp_path)
    assert (config.loss.name, config.optimizer.matrix_lr, config.seed) == ("ranking", 0.01, 3)
    assert settings["program"] == "train.py" and settings["metric"]["name"] in ("best/loss", "validation/loss")


def job(root: Path, name: str, *words: str, **numbers: Any) -> Path:
    folder = root / name
    (folder / ".hydra").mkdir(parents=True)
    (folder / ".hydra/overrides.yaml").write_text(json.dumps(words))
    if numbers:
        summary = {"validation_accuracy": 0.75, "steps": 3, "seconds": 1.5, "commit": "abc"} | numbers
        summary["counts"] = {"validation_decided": 30 + int(name)}
        (folder / "summary.json").write_text(json.dumps(summary))
    return folder


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """Two seeds of cls finished, one job of ranking killed."""
    job(tmp_path, "0", "model=tiny", "loss=cls", "seed=1", validation_loss=0.5)
    job(tmp_path, "1", "model=tiny", "loss=cls", "seed=2", validation_loss=0.7)
    job(tmp_path, "2", "model=tiny", "loss=ranking", "seed=1")
    return tmp_path


def test_every_job_is_a_row_and_says_why_it_has_no_numbers(finished: Path) -> None:
    jobs = read_jobs(finished)
    assert [item.name for item in jobs] == ["0", "1", "2"]
    assert [item.status for item in jobs] == ["finished", "finished", "unfinished"]
    note_failure(finished / "2", "out of\nluck")
    table = job_table(read_jobs(finished))
    assert list(table.columns[:4]) == ["job", "status", "loss", "seed"], "settings that all share are no columns"
    assert (table.status[2], table.reason[2]) == ("failed", "out of luck")
    assert table.validation_loss.tolist()[:2] == [0.5, 0.7]
    assert table.validation_n.tolist() == [30, 31, ""], "of how many comparisons an accuracy is"


def test_means_over_seeds_are_students(finished: Path) -> None:
    table = seed_table(read_jobs(finished)).set_index("loss")
    half = stats.t.ppf(0.975, 1) * 0.1  # the standard error of 0.5 and 0.7
    row = table.loc["cls"]
    assert (row["n"], row["not finished"], row["validation_n"]) == (2, 0, 30)
    assert [row[f"validation_loss{part}"] for part in ("", " low", " high")] == pytest.approx(
        [0.6, 0, 0.6 + half]  # a loss below 0 is none: 0.6 - half is
    )
    assert (table.loc["ranking", "n"], table.loc["ranking", "not finished"]) == (0, 1)
    assert pd.isna(table.loc["ranking", "validation_loss"])


def test_limits_stay_in_range_and_a_single_seed_has_none(tmp_path: Path) -> None:
    job(tmp_path, "0", "loss=cls", "seed=1", validation_loss=0.5, validation_accuracy=0.4)
    job(tmp_path, "1", "loss=ranking", validation_loss=0.6)
    assert seed_table(read_jobs(tmp_path)).empty, "no two jobs differ in the seed alone"
    failed = job(tmp_path, "2", "loss=cls", "seed=2")
    note_failure(failed, "no")
    table = seed_table(read_jobs(tmp_path))
    assert table["n"].tolist() == [1, 1] and table["validation_loss low"].isna().all()
    job(tmp_path, "3", "loss=cls", "seed=3", validation_loss=0.5, validation_accuracy=0.7)  # 0.55 +- 1.91
    row = seed_table(read_jobs(tmp_path)).iloc[0]
    assert [row[f"validation_accuracy{part}"] for part in ("", " low", " high")] == [pytest.approx(0.55), 0, 1]


def test_an_accuracy_that_is_not_known_is_a_dash_and_a_mean_over_it_too(tmp_path: Path) -> None:
    job(tmp_path, "0", "loss.ties=soft", "seed=1", validation_loss=0.7, validation_accuracy=None)
    job(tmp_path, "1", "loss.ties=soft", "seed=2", validation_loss=0.5, validation_accuracy=None)
    assert [found.status for found in write_sweep_tables(tmp_path)] == ["finished", "finished"]
    means = (tmp_path / "seeds.md").read_text(encoding="utf-8")
    assert "0.600" in means and "nan" not in means.lower()
    assert "nan" not in (tmp_path / "sweep.md").read_text(encoding="utf-8").lower()
    assert math.isnan(seed_table(read_jobs(tmp_path)).validation_accuracy[0])
