"""Several runs side by side, each a training with its evaluation and leaderboards.

A job has one process with one thread (threads of one small training wait for each other) and at most one GPU. A
training that its folder holds, finished with the same settings on the same data, is not made again; one that was
interrupted goes on.
"""

from __future__ import annotations

import hashlib
import json
import logging
import multiprocessing
import os
import queue
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lightning as L
import pandas as pd
import torch
from lightning.pytorch.callbacks import Callback, LambdaCallback
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from transformers.utils.logging import disable_progress_bar

from crm.config import compose
from crm.data.catalogue import location, place_of
from crm.data.config import DataConfig
from crm.evaluation.run import run_evaluation
from crm.io.files import replace_file
from crm.io.installed import commit
from crm.io.rows import data_files
from crm.leaderboard.ranking import Leaderboard
from crm.leaderboard.run import run_leaderboard
from crm.model.manifest import MANIFEST, sha256
from crm.schema import Result
from crm.training.resume import LAST, SUMMARY, AnotherRunError, finished_before
from crm.training.train import run_training
from experiments.processes import CHILD_ENVIRONMENT, end_with_parent

SECONDS_A_LINE = 15.0
KEPT_LINES = 4
"""Of a few jobs, those that are done stay in the display."""
STOPS = "stopping: what trains saves after its step; once more (Ctrl-C) stops at once, without saving"
_channel: Any = None
"""Of a worker, to the parent's display."""


@dataclass(frozen=True)
class Job:
    """One training (``overrides`` of ``train.py``) in ``folder``, then suites and leaderboards with its model.

    ``evaluations`` maps a name to overrides of ``evaluate.py``, ``leaderboards`` to criteria. Without ``overrides``
    (``None``) nothing is trained: the evaluations name a judge that needs no checkpoint.
    """

    name: str
    folder: Path
    overrides: tuple[str, ...] | None
    evaluations: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    leaderboards: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    stages: tuple[tuple[str, ...], ...] = ((),)
    """Further overrides of trainings one after the other, each of which starts from the model of the one before."""
    evaluated: tuple[str, ...] = ()
    """Further overrides of ``evaluate.py`` for attacks, such as the data."""
    ranking: tuple[str, ...] = ()
    """Further overrides of ``leaderboard.py`` for all leaderboards, such as the bank."""
    attacked: int = 0
    """Pairs whose losing response is attacked, of the suites D+ and D-; what comes out goes into the model's card."""
    start: Path | None = None
    """Model folder of another job, made before, whose model the first stage starts from."""


@dataclass(frozen=True)
class JobResult:
    """``seconds`` of each stage; a stage whose product was there already took next to none."""

    results: dict[str, list[Result]]
    leaderboards: dict[str, Leaderboard]
    seconds: dict[str, float]
    effects: pd.DataFrame | None = None
    """What attacks do, of `crm.evaluation.robustness.effects_of`."""


def run_jobs(
    jobs: Sequence[Job], workers: int, done: Callable[[dict[str, JobResult]], None] | None = None
) -> dict[str, JobResult]:
    """Run all jobs, ``workers`` at a time, each with a GPU of its own where there are any, under one progress display.

    The first error of a job ends the call, as Ctrl-C and SIGTERM do: trainings at work save and stop, and no other one
    begins. ``done`` is called with the results so far whenever a job has ended.
    """
    context = multiprocessing.get_context("spawn")
    for name, value in CHILD_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if jobs and jobs[0].overrides is not None:
        compose("train", jobs[0].overrides, jobs[0].folder)  # a mistyped setting is found before processes start
    gpus = _gpus(jobs)
    workers = min(workers, len(gpus) or workers)
    channel, own = context.Queue(), context.Queue()
    for gpu in gpus:
        own.put(gpu)
    display = (_Bars if Console().is_terminal else _Lines)([job.name for job in jobs])
    with ProcessPoolExecutor(workers, context, _begin, (channel, own if gpus else None)) as pool, display:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # of workers that start, too: until `_begin`
        futures = {job.name: pool.submit(_work, job) for job in jobs}
        before_sigterm = signal.signal(signal.SIGTERM, _stop)
        ended: dict[str, JobResult] = {}
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            while len(ended) < len(jobs):
                _forward(channel, display, len(ended))
                before, ended = ended, {name: future.result() for name, future in futures.items() if future.done()}
                if done and len(ended) > len(before):
                    done(ended)
        except BaseException:
            print(STOPS, file=sys.stderr, flush=True)
            for future in futures.values():
                future.cancel()
            while at_work := multiprocessing.active_children():
                for worker in at_work:
                    worker.terminate()
                at_work[0].join(30)
            raise
        finally:
            signal.signal(signal.SIGTERM, before_sigterm)
        _forward(channel, display, len(jobs))
        return ended


def _stop(*_: object) -> None:
    """At SIGTERM, which schedulers send twice, as at Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def commits(folders: Iterable[Path]) -> str:
    """Of the code that trained the models of these runs; of this code where there are none."""
    cards = (json.loads((folder / "model" / MANIFEST).read_text(encoding="utf-8")) for folder in folders)
    return ", ".join(sorted({card.get("commit") or "unknown" for card in cards})) or commit()


def _gpus(jobs: Sequence[Job]) -> list[str]:
    """Names of the GPUs that the workers share out; none where all trainings are on the CPU."""
    on_cpu = {"trainer=cpu", "trainer.accelerator=cpu"}
    if not any(job.overrides is not None and on_cpu.isdisjoint(job.overrides) for job in jobs):
        return []
    count = torch.cuda.device_count()
    return os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(count)))).split(",")[:count]


def _begin(channel: Any, gpus: Any) -> None:
    """Prepare a worker: it takes a GPU of those that are left, and Ctrl-C is for its job."""
    global _channel  # only a process that starts can be handed a queue
    _channel = channel
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    if gpus is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus.get()


def _work(job: Job) -> JobResult:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return run_job(job, _channel)
    except KeyboardInterrupt:
        os._exit(1)  # it has saved, and no other job may begin here
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


class _Bars(Progress):
    """In a terminal: a bar for all jobs and one for each job at work."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(
            TextColumn("{task.description:>24}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}% {task.fields[stage]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            refresh_per_second=2,
        )
        # Only jobs at work have a line: a display higher than its terminal would hide the last ones.
        self.total = self.add_task("all runs", total=len(names), stage="")
        self.bars = {name: self.add_task(name, total=1.0, stage="waiting", visible=False) for name in names}

    def show(self, name: str, stage: str, share: float) -> None:
        """``share`` in [0, 1] of the job is done."""
        visible = share < 1 or len(self.bars) <= KEPT_LINES
        self.update(self.bars[name], completed=share, stage=stage, visible=visible)

    def done(self, count: int) -> None:
        """``count`` jobs are done."""
        self.update(self.total, completed=count)


class _Lines(AbstractContextManager["_Lines"]):
    """In a log file: a line when a job begins something else, and every `SECONDS_A_LINE` while it goes on."""

    def __init__(self, names: Sequence[str]) -> None:
        self.started = time.monotonic()
        self.shown: dict[str, tuple[str, float]] = {}
        print(f"0:00 starting {', '.join(names)}", flush=True)

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, name: str, stage: str, share: float) -> None:
        """``share`` in [0, 1] of the job is done."""
        seconds = time.monotonic() - self.started
        before, when = self.shown.get(name, ("", -SECONDS_A_LINE))
        if stage != before or seconds - when >= SECONDS_A_LINE:
            self.shown[name] = stage, seconds
            print(f"{int(seconds) // 60}:{int(seconds) % 60:02} {name} {share:4.0%} {stage}", flush=True)

    def done(self, count: int) -> None:
        """The last line of a job says it."""


def _forward(channel: Any, display: _Bars | _Lines, done: int) -> None:
    """Show what the jobs have reported: wait half a second for the first, take what else is there."""
    display.done(done)
    with suppress(queue.Empty):
        display.show(*channel.get(timeout=0.5))
        while True:
            display.show(*channel.get_nowait())


def run_job(job: Job, channel: Any) -> JobResult:
    """Train, evaluate, rank, in this process. Lightning's own output goes to ``job.log`` in the folder."""
    channel.put((job.name, "starting", 0.0))
    _quiet(job.folder)
    seconds: dict[str, float] = {}
    started = time.perf_counter()
    common = [_judged(job, channel), "progress=false"]
    seconds["train"] = time.perf_counter() - started
    results: dict[str, list[Result]] = {}
    started = time.perf_counter()
    for name, overrides in job.evaluations.items():
        channel.put((job.name, f"evaluating {name}", 0.9))
        results[name] = run_evaluation(compose("evaluate", [*common, *overrides], job.folder / name), show=False)
    seconds["evaluate"] = time.perf_counter() - started
    started = time.perf_counter()
    boards: dict[str, Leaderboard] = {}
    for name, criteria in job.leaderboards.items():
        channel.put((job.name, f"ranking {name}", 0.95))
        wanted = [f"criteria={json.dumps(list(criteria))}", *job.ranking]
        boards[name] = run_leaderboard(compose("leaderboard", [*common, *wanted], job.folder / name), show=False)
    seconds["leaderboard"] = time.perf_counter() - started
    effects = _attacked(job, common) if job.attacked else None
    channel.put((job.name, "done", 1.0))
    return JobResult(results, boards, seconds, effects)


def _attacked(job: Job, common: Sequence[str]) -> pd.DataFrame:
    words = [*common, *job.evaluated, "suite=[D+,D-]", f"attacks={job.attacked}"]
    run_evaluation(compose("evaluate", words, job.folder / "attacks"), show=False)
    return pd.read_csv(job.folder / "attacks" / "robustness.csv", skiprows=1)


def _judged(job: Job, channel: Any) -> str:
    """What the evaluations read: the job's model, trained where it is missing, or else a judge that has none."""
    if job.overrides is None:
        return f"predictions='{job.folder / 'predictions'}'"
    return f"checkpoint='{_train(job, job.overrides, channel)}'"


def _train(job: Job, overrides: tuple[str, ...], channel: Any) -> Path:
    """The model folder, stage after stage; what is there already is not trained again."""
    model, count = job.start, len(job.stages)
    for number, stage in enumerate(job.stages, 1):
        words = (*overrides, *stage) if model is None else (*overrides, *stage, f"model.path='{model}'")
        folder = job.folder if number == count else job.folder / f"stage_{number}"
        report = _Report(job.name, channel, 0.9 * (number - 1) / count, 0.9 * number / count)
        report.say("reading data", report.start)
        model = _trained(words, folder, report, model)
    assert model is not None, "a job has at least one stage"
    return model


def _trained(overrides: Sequence[str], folder: Path, report: _Report, start: Path | None = None) -> Path:
    """The model in ``folder``: trained, or as it is where it was finished with these settings, ``start`` and data."""
    words = ["trainer.progress=false", "trainer.threads=1", "trainer.devices=1", *overrides]
    config = compose("train", words, folder)
    read, note = _digest(config.data, start), folder / "read.sha256"
    same = not note.is_file() or note.read_text() == read  # train.py writes none, and its runs are kept
    with suppress(AnotherRunError):
        if same and finished_before(config) and (folder / "model" / MANIFEST).is_file():
            replace_file(note, read)
            return folder / "model"
    if config.trainer.devices != 1:
        raise ValueError(
            f"trainer.devices={config.trainer.devices}: a job trains on one device; run train.py yourself with "
            f"hydra.run.dir={folder}, and what it made is read here"
        )
    if not config.resume and ((folder / SUMMARY).is_file() or (folder / LAST).is_file()):
        report.say("training anew: other settings or data", report.start)
    noted = LambdaCallback(on_fit_start=lambda *_: replace_file(note, read))
    return run_training(config, [report, noted]).checkpoint


def places(data: DataConfig) -> list[Path]:
    """Where the data are; none are simulated. Raises ``ValueError`` where they are not there."""
    if data.path:
        return [place_of(data.path, divided=True)]
    names = (name for name in data.sources or [data.name] if name != "simulation")
    return [location(name, root=data.root, path=None) for name in names]


def _digest(data: DataConfig, start: Path | None) -> str:
    """SHA-256 of what a training reads: the files of its data, and the card of the model that it starts from."""
    splits = ((one, one / "splits") for one in places(data))
    files = [file for one, prepared in splits for file in data_files(prepared if prepared.is_dir() else one)]
    digests = map(sha256, [*files, *([start / MANIFEST] if start else [])])
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def _quiet(folder: Path) -> None:
    torch.set_num_threads(1)
    os.environ["TQDM_DISABLE"] = "1"
    # That of transformers takes no notice of the line above.
    disable_progress_bar()  # type: ignore[no-untyped-call]
    folder.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(filename=folder / "job.log", level=logging.INFO, force=True)
    logging.captureWarnings(True)
    warnings.simplefilter("default")
    lightning_log = logging.getLogger("lightning.pytorch")
    lightning_log.handlers.clear()
    lightning_log.propagate = True


class _Report(Callback):
    """Tell the parent how far training is."""

    def __init__(self, name: str, channel: Any, start: float, end: float) -> None:
        self.name, self.channel, self.start, self.end = name, channel, start, end

    def say(self, stage: str, share: float) -> None:
        """Of the job, ``share`` is done."""
        self.channel.put((self.name, stage, share))

    def on_train_batch_end(self, trainer: L.Trainer, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if trainer.global_step % 20 == 0:
            accuracy = trainer.callback_metrics.get("validation/accuracy")
            stage = "training" if accuracy is None else f"training, validation accuracy {float(accuracy):.3f}"
            share = self.start + (self.end - self.start) * trainer.global_step / module.total_steps
            self.say(stage, share)
