"""A sweep that is killed goes on job by job; a rank that is killed takes the others with it, and says so."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch.callbacks import Callback

from crm import cli
from crm.config import compose
from crm.training.run import run_training
from crm.training.sweep_jobs import read_jobs
from tests.conftest import _as_rank
from tests.training.killed_runs import EVERY_STEP, FORK, TINY, last_step

pytestmark = pytest.mark.slow
WORDS = (*TINY, *EVERY_STEP, "schedule.epochs=1")


def command(folder: Path, *words: str) -> multiprocessing.process.BaseProcess:
    """``train.py`` with these words, in a process of its own."""

    def work() -> None:
        os.chdir(folder)
        sys.argv = ["train.py", *words, *WORDS]
        cli.train()

    process = FORK.Process(target=work)
    process.start()
    return process


def ended(process: multiprocessing.process.BaseProcess, within: float = 120.0) -> int | None:
    process.join(within)
    return process.exitcode


def told(job: Path) -> tuple[Any, ...]:
    summary = json.loads((job / "summary.json").read_text())
    return summary["digest"], summary["validation_loss"], summary["steps"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Any, ...]]:
    """What single runs of the jobs say of themselves."""
    folders = [tmp_path_factory.mktemp("alone") for _ in range(2)]
    for number, folder in enumerate(folders):
        run_training(compose("train", [*WORDS, f"seed={number + 1}"], folder))
    return [told(folder) for folder in folders]


@pytest.mark.parametrize("killed", [0, 1])
def test_a_killed_sweep_goes_on_job_by_job(killed: int, alone: list[tuple[Any, ...]], tmp_path: Path) -> None:
    sweep = ("-m", "seed=1,2", "hydra.sweep.dir=sweep")
    process = command(tmp_path, *sweep)
    deadline = time.monotonic() + 90
    while last_step(tmp_path / f"sweep/{killed}") < 7:
        assert process.is_alive() and time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(process.pid or 0, signal.SIGKILL)
    assert ended(process) == -signal.SIGKILL
    statuses = [job.status for job in read_jobs(tmp_path / "sweep")]
    assert statuses == (["unfinished", "not started"] if killed == 0 else ["finished", "unfinished"])
    for number in range(killed, 2):
        resume = ("resume=true",) if number == killed else ()
        assert ended(command(tmp_path, f"seed={number + 1}", f"hydra.run.dir=sweep/{number}", *resume)) == 0
    assert [job.status for job in read_jobs(tmp_path / "sweep")] == ["finished", "finished"]
    assert [told(tmp_path / f"sweep/{number}") for number in range(2)] == alone


class Die(Callback):
    """Kills the process of a rank after an optimizer step."""

    def __init__(self, rank: int, step: int) -> None:
        self.rank, self.step = rank, step

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if trainer.global_rank == self.rank and trainer.global_step == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


def train_and_die(folder: Path, rank: int) -> None:
    two = ("trainer.devices=2", "trainer.strategy=ddp", "schedule.comparisons_per_step=4")
    run_training(compose("train", [*WORDS, *two], folder), [Die(rank, 4)])


@pytest.mark.parametrize("rank", [0, 1])
def test_the_survivor_of_a_killed_rank_ends_in_half_a_minute(rank: int, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    both = [FORK.Process(target=_as_rank, args=(number, 2, port, train_and_die, (tmp_path, rank))) for number in (0, 1)]
    for process in both:
        process.start()
    try:
        assert ended(both[rank]) == -signal.SIGKILL
        assert ended(both[1 - rank], within=30) not in (0, None)
        assert not (tmp_path / "model").exists() and not (tmp_path / "summary.json").exists()
    finally:
        for process in both:
            process.kill()
