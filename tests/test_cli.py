"""A mistake on the command line gives one sentence with the nearest valid name, and exit code 2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from crm import __version__
from crm.cli import app, bank, train
from crm.cli.mistakes import explain
from crm.config import checked, config_dir, register, schemas
from crm.training.sweeps import single_run
from tests.conftest import TINY_MODEL

ROOT = Path(__file__).resolve().parents[1]
TINY = [
    *TINY_MODEL,
    *("data.train=24", "data.validation=8", "data.suite=4", "debug=fast"),
]

SAID = [
    ("train", "schedule.epoch=2", "schedule.epoch: no such setting; did you mean schedule.epochs?"),
    ("train", "logger=wandbb", "logger=wandbb: no such option, there are csv, tensorboard, wandb; did you mean wandb?"),
    ("train", "experiment=demo_scaler", "did you mean demo_scalar?"),
    ("train", "schedule.epochs=abc", "schedule.epochs: Value 'abc' of type 'str' could not be converted to Integer"),
    ("train", "trainer.progress=maybe", "trainer.progress: Value 'maybe' is not a valid bool"),
    ("train", "data.train=[1,2", "data.train=[1,2: cannot be read as a setting"),
    ("train", "model.path=${nope}", "model.path: Interpolation key 'nope' not found"),
    ("evaluate", "suite=standrd", "did you mean standard?"),
]


@pytest.mark.parametrize(("entry", "override", "said"), SAID, ids=[row[1] for row in SAID])
def test_explain_gives_one_sentence(entry: str, override: str, said: str) -> None:
    register()
    with (
        pytest.raises((HydraException, OmegaConfBaseException, ValueError)) as raised,
        initialize_config_dir(str(config_dir()), version_base="1.3"),
    ):
        checked(compose(entry, overrides=[override, "run_dir=x"]), schemas()[entry])
    sentence = explain(raised.value, schemas()[entry])
    assert said in sentence
    assert "\n" not in sentence


def test_without_its_packages_the_page_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("crm.cli.commands.find_spec", lambda name: None)
    monkeypatch.setattr("sys.argv", ["crm-app", "judge=length"])
    with pytest.raises(SystemExit) as ended:
        app()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said == "crm-app: app: its packages are not installed; pip install 'crm-leaderboard[app]'\n"


def test_version_is_that_of_this_package(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["bank.py", "--version"])
    bank()
    assert capsys.readouterr().out == f"crm {__version__}\n"


@pytest.mark.parametrize("launcher", ["slurm", "submitit_slurm"])
def test_slurm_off_a_cluster_is_one_sentence(
    launcher: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))  # no srun there
    monkeypatch.setattr("sys.argv", ["train.py", "-m", f"hydra/launcher={launcher}", "seed=1,2"])
    with pytest.raises(SystemExit) as ended:
        train()
    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert "hydra/launcher=slurm: no srun here" in shown
    assert "Traceback" not in shown


def command_line(tmp_path: Path, script: str, *overrides: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, str(ROOT / script), *overrides],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "overrides", "said"),
    [
        (
            "train.py",
            ["loss.centre_scores=0.1", "loss=cls"],
            "crm-train: loss.centre_scores=0.1: expected 0 with",
        ),
    ],
)
def test_a_mistake_ends_with_one_sentence_and_exit_code_2(
    tmp_path: Path, script: str, overrides: list[str], said: str
) -> None:
    ended = command_line(tmp_path, script, *overrides)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith(said)
    assert ended.stderr.count("\n") == 1


@pytest.mark.slow
def test_an_evaluation_that_fails_leaves_its_reason(tmp_path: Path) -> None:
    """The sweep whose job it is, if any, sits in another process and tells it from there."""
    ended = command_line(tmp_path, "evaluate.py", "checkpoint=none", "hydra.run.dir=run")
    assert ended.returncode == 2
    assert (tmp_path / "run/failure.txt").read_text().startswith("checkpoint=none: no such folder; give a run folder")


@pytest.mark.slow
def test_a_failing_job_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    ended = command_line(
        tmp_path, "train.py", "-m", *TINY, "loss.centre_scores=0.1,0", "loss=cls", "hydra.sweep.dir=sweep"
    )
    assert ended.returncode == 2
    assert "loss.centre_scores=0.1: expected 0 with head=pairwise" in ended.stderr
    assert "1 jobs of this sweep failed: 0" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert (tmp_path / "sweep/1/model/crm.json").is_file()
    assert not (tmp_path / "sweep/0/model").exists()


def test_a_job_of_a_sweep_becomes_a_single_run() -> None:
    hydra = ("hydra.mode=MULTIRUN", "hydra.sweep.dir=x", "hydra.run.dir=y", "+hydra.job.env_set.A=b")
    line = single_run(["model=tiny"], hydra, "/a/it's here", "train")
    place = ['hydra.run.dir="/a/it\'s here"', "hydra.output_subdir=null", "hydra.job.name=train"]
    assert line == ["model=tiny", "+hydra.job.env_set.A=b", *place]
