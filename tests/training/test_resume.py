"""A run that was killed and resumed is the run that was never stopped: same losses, same validations, same weights.

The kills are real (SIGKILL to a process of its own, at a step that its metrics file shows).
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import signal
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch.callbacks import Callback

from crm import cli
from crm.config import compose
from crm.model.export import load_checkpoint
from crm.schema import to_json
from crm.training.checkpointing import SafeCheckpointIO
from crm.training.train import run_training
from crm.training.run_folder import AnotherRunError, alone_in
from crm.training.sweeps import read_jobs
from crm.votes.simulation.arena import simulate
from tests.training.killed_runs import (
    EVERY_STEP,
    FORK,
    TINY,
    assert_same_run,
    kill_at,
    last_step,
    train,
    train_with_dropout,
    votes_read,
)

pytestmark = pytest.mark.slow

SETTINGS = (*EVERY_STEP, "batching.batch_size=2", "noise=random", "optimizer.warmup_fraction=0.6")
"""Steps of several batches, noise and dropout that are drawn, a rate that rises and falls: all that can be lost."""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with records of one's own and a run on them that was killed in the middle of its first epoch."""
    folder = tmp_path_factory.mktemp("stopped")
    votes = simulate(seed=1, train=70, validation=8, suite=4).train
    (folder / "votes.jsonl").write_text("".join(to_json(vote) + "\n" for vote in votes), encoding="utf-8")
    kill_at(7, folder / "run", train_with_dropout, *own_data(folder))
    assert SafeCheckpointIO().load_checkpoint(folder / "run/checkpoints/last.ckpt")["global_step"] < 12
    return folder


def test_a_killed_moved_and_resumed_run_is_the_run_that_was_never_stopped(stopped: Path, tmp_path: Path) -> None:
    expected = train_with_dropout(tmp_path / "whole", *own_data(stopped))
    shutil.copytree(stopped, tmp_path / "moved")
    resumed = train_with_dropout(tmp_path / "moved/run", *own_data(tmp_path / "moved"), "resume=true")
    assert_same_run(tmp_path / "moved/run", tmp_path / "whole")
    assert resumed.digest == expected.digest, "the best checkpoint is another one"
    assert resumed.validation_loss == expected.validation_loss
    read = votes_read(tmp_path / "whole")
    assert votes_read(tmp_path / "moved/run") == read
    assert read[0] == read[1] and len(read[0]) == len(set(read[0])) > 24, "every vote is read once an epoch"


def own_data(folder: Path) -> tuple[str, ...]:
    return (*SETTINGS, "data=records", f"data.path={folder / 'votes.jsonl'}", "data.train=48", "data.validation=8")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("seed=7", "seed was 42, now 7"),
        ("loss=cls", "head.name was 'scalar', now 'pairwise'"),
        ("optimizer.lr=0.5", r"optimizer.lr was [\de.-]+, now 0.5"),
        ("trainer.precision=bf16-mixed", "trainer.precision was '32-true', now 'bf16-mixed'"),
        ("schedule.max_steps=9", "schedule.max_steps was 0, now 9"),
        ("data.train=40", "data.train was 48, now 40"),
        (("data=simulation", "data.path=null"), "data.name was 'records', now 'simulation'"),
    ],
)
def test_a_run_of_other_settings_is_refused_before_anything_is_written(
    changed: str | tuple[str, ...], said: str, stopped: Path
) -> None:
    before = contents(stopped / "run")
    with pytest.raises(AnotherRunError, match=said):
        train(
            stopped / "run", *own_data(stopped), "resume=true", *((changed,) if isinstance(changed, str) else changed)
        )
    assert contents(stopped / "run") == before


def test_a_file_with_flipped_labels_is_other_data(stopped: Path, tmp_path: Path) -> None:
    flipped = {'"winner": "a"': '"winner": "b"', '"winner": "b"': '"winner": "a"'}
    text = (stopped / "votes.jsonl").read_text(encoding="utf-8")
    other = tmp_path / "votes.jsonl"
    other.write_text(re.sub("|".join(flipped), lambda found: flipped[found[0]], text), encoding="utf-8")
    before = contents(stopped / "run")
    with pytest.raises(AnotherRunError, match=r"other settings: the data \(rows to train and validate on\) differ"):
        train(stopped / "run", *own_data(stopped), "resume=true", f"data.path={other}")
    assert contents(stopped / "run") == before


def test_a_checkpoint_without_its_settings_is_refused(stopped: Path, tmp_path: Path) -> None:
    shutil.copytree(stopped / "run", tmp_path / "run")
    last = tmp_path / "run/checkpoints/last.ckpt"
    state = SafeCheckpointIO().load_checkpoint(last)
    del state["run"]
    SafeCheckpointIO().save_checkpoint(state, last)
    with pytest.raises(AnotherRunError, match="does not say which run it is of"):
        train(tmp_path / "run", *own_data(stopped), "resume=true")


class Ruin(Callback):
    """Makes every validation from now on worse."""

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        with torch.no_grad():
            pl_module.model.score.weight.normal_(0.0, 100.0)


def test_the_best_of_before_a_move_is_the_best_after_it(stopped: Path, tmp_path: Path) -> None:
    shutil.copytree(stopped, tmp_path / "moved")
    run = tmp_path / "moved/run"
    best = SafeCheckpointIO().load_checkpoint(run / "checkpoints/best.ckpt")["state_dict"]
    outcome = run_training(compose("train", [*TINY, *own_data(tmp_path / "moved"), "resume=true"], run), [Ruin()])
    exported = load_checkpoint(outcome.checkpoint)[0].state_dict()
    assert all(torch.equal(best[f"model.{name}"], weight) for name, weight in exported.items())


def test_two_trainings_never_share_a_folder(tmp_path: Path) -> None:
    with alone_in(tmp_path / "run"):
        before = contents(tmp_path / "run")
        with pytest.raises(AnotherRunError, match=r"hydra\.run\.dir=.*run: another training is at work there"):
            train(tmp_path / "run", *EVERY_STEP)
        assert contents(tmp_path / "run") == before
    with alone_in(tmp_path / "run"):
        pass  # free again


def test_the_default_folder_is_one_s_own_to_the_microsecond() -> None:
    conf = Path(__file__).resolve().parents[2] / "conf"
    patterns = [line for file in conf.glob("*.yaml") for line in file.read_text().splitlines() if "{now:" in line]
    assert len(patterns) >= 10 and all(line.endswith("${now:%H-%M-%S-%f}") for line in patterns)


def test_resuming_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="resume=true: no whole checkpoint"):
        train(tmp_path, "resume=true")


def test_a_new_run_in_an_old_folder_starts_anew(stopped: Path, tmp_path: Path) -> None:
    run = shutil.copytree(stopped / "run", tmp_path / "run")
    assert (run / "checkpoints/best.ckpt").exists()
    train(run, *own_data(stopped), "schedule.max_steps=3")
    assert last_step(run) == 2
    assert not (run / "checkpoints/best.ckpt").exists(), "no validation in 3 steps: this is the old run's best"


def test_a_killed_sweep_goes_on_job_by_job(tmp_path: Path) -> None:
    process = command(tmp_path, "-m", "seed=1,2", "hydra.sweep.dir=sweep")
    deadline = time.monotonic() + 90
    while last_step(tmp_path / "sweep/0") < 4:
        assert process.is_alive() and time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join(60)
    assert [job.status for job in read_jobs(tmp_path / "sweep")] == ["unfinished", "not started"]
    for words in (("seed=1", "hydra.run.dir=sweep/0", "resume=true"), ("seed=2", "hydra.run.dir=sweep/1")):
        going_on = command(tmp_path, *words)
        going_on.join(120)
        assert going_on.exitcode == 0
    assert [job.status for job in read_jobs(tmp_path / "sweep")] == ["finished", "finished"]


def command(folder: Path, *words: str) -> BaseProcess:
    """``train.py`` with these words, in a process of its own."""

    def work() -> None:
        os.chdir(folder)
        sys.argv = ["train.py", *words, *TINY, *EVERY_STEP, "schedule.epochs=1"]
        cli.train()

    process = FORK.Process(target=work)
    process.start()
    return process


def test_nobody_asks_lightning_for_the_number_of_steps() -> None:
    """Reading it builds the loaders early, and a resumed run then forgets its position in the epoch."""
    for file in (Path(__file__).resolve().parents[2] / "crm").rglob("*.py"):
        names = {node.attr for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Attribute)}
        assert "estimated_stepping_batches" not in names, file
