"""Several runs side by side. In: jobs, each a training with its evaluation and leaderboards. Out: their results.

A job has one process with one thread: two small trainings on two cores are several times faster so than one training
with two threads. What a job finds already made in its folder, under the same configuration, it does not make again.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import queue
import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from omegaconf import OmegaConf
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from crm.config import compose
from crm.evaluation.run import run_evaluation
from crm.leaderboard.ranking import Leaderboard
from crm.leaderboard.run import run_leaderboard
from crm.models.export import MANIFEST
from crm.schema import Result
from crm.training import run_training

Message = tuple[str, str, float]


@dataclass(frozen=True)
class Job:
    """One training (``overrides`` of ``train.py``) in ``folder``, then suites and leaderboards with its model.

    ``evaluations`` maps a name to overrides of ``evaluate.py``, ``leaderboards`` to criteria.
    """

    name: str
    folder: Path
    overrides: tuple[str, ...]
    evaluations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    leaderboards: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class JobResult:
    """``seconds`` of each stage; a stage whose product was there already took next to none."""

    results: dict[str, list[Result]]
    leaderboards: dict[str, Leaderboard]
    seconds: dict[str, float]


def run_jobs(jobs: Sequence[Job], workers: int) -> dict[str, JobResult]:
    """Run all jobs, ``workers`` at a time, under one progress display. The first error of a job ends the call."""
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(workers, context) as pool, _display() as display:
        channel = manager.Queue()
        bars = {job.name: display.add_task(job.name, total=1.0, stage="waiting") for job in jobs}
        futures = {job.name: pool.submit(run_job, job, channel) for job in jobs}
        while not all(future.done() for future in futures.values()):
            _forward(channel, display, bars)
            _stop_at_error(futures)
        _forward(channel, display, bars)
        return {name: future.result() for name, future in futures.items()}


def _display() -> Progress:
    columns = (
        TextColumn("{task.description:>24}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}% {task.fields[stage]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns)


def _forward(channel: Any, display: Progress, bars: Mapping[str, Any]) -> None:
    try:
        name, stage, share = channel.get(timeout=0.5)
    except queue.Empty:
        return
    display.update(bars[name], completed=share, stage=stage)


def _stop_at_error(futures: Mapping[str, Future[JobResult]]) -> None:
    for future in futures.values():
        if future.done() and future.exception() is not None:
            for other in futures.values():
                other.cancel()
            future.result()


def run_job(job: Job, channel: Any) -> JobResult:
    """Train, evaluate, rank, in this process. Lightning's own output goes to ``job.log`` in the folder."""
    _quiet(job.folder)
    seconds: dict[str, float] = {}
    started = time.perf_counter()
    model = _train(job, channel)
    seconds["train"] = time.perf_counter() - started
    common = [f"checkpoint='{model}'", "progress=false"]
    results: dict[str, list[Result]] = {}
    started = time.perf_counter()
    for name, overrides in job.evaluations.items():
        channel.put((job.name, f"evaluating {name}", 0.9))
        results[name] = run_evaluation(compose("evaluate", [*common, *overrides], job.folder / name), quiet=True)
    seconds["evaluate"] = time.perf_counter() - started
    started = time.perf_counter()
    boards: dict[str, Leaderboard] = {}
    for name, criteria in job.leaderboards.items():
        channel.put((job.name, f"ranking {name}", 0.95))
        wanted = f"criteria={json.dumps(list(criteria))}"
        boards[name] = run_leaderboard(compose("leaderboard", [*common, wanted], job.folder / name), quiet=True)
    seconds["leaderboard"] = time.perf_counter() - started
    channel.put((job.name, "done", 1.0))
    return JobResult(results, boards, seconds)


def _train(job: Job, channel: Any) -> Path:
    """The model folder; trained unless it is there with the very same configuration."""
    config = compose("train", ["trainer.progress=false", "trainer.threads=1", *job.overrides], job.folder)
    wanted = OmegaConf.to_container(OmegaConf.structured(config))
    manifest = job.folder / "model" / MANIFEST
    if manifest.is_file() and json.loads(manifest.read_text(encoding="utf-8")).get("config") == wanted:
        return job.folder / "model"
    return run_training(config, [_Report(job.name, channel)]).checkpoint


def _quiet(folder: Path) -> None:
    torch.set_num_threads(1)
    os.environ["TQDM_DISABLE"] = "1"
    folder.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(filename=folder / "job.log", level=logging.INFO, force=True)
    logging.captureWarnings(True)
    warnings.simplefilter("default")
    lightning_log = logging.getLogger("lightning.pytorch")
    lightning_log.handlers.clear()
    lightning_log.propagate = True


class _Report(Callback):
    """Tell the parent how far training is."""

    def __init__(self, name: str, channel: Any) -> None:
        self.name, self.channel = name, channel

    def on_train_batch_end(self, trainer: L.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if trainer.global_step % 20 == 0:
            accuracy = trainer.callback_metrics.get("validation/accuracy")
            stage = "training" if accuracy is None else f"training, validation accuracy {float(accuracy):.3f}"
            self.channel.put((self.name, stage, 0.9 * trainer.global_step / module.total_steps))
