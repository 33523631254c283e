"""Tests of experiments and studies are slow ones: `make quick` is about the library."""

import queue
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from experiments import jobs

TINY = (
    *("schedule.validate_every=0", "schedule.save_every=0"),
    *("model.hidden_size=16", "model.layers=1", "model.vocab_size=400"),
)
"""Trainings of a few steps."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)


def run_here(
    wanted: Sequence[jobs.Job], workers: int = 1, done: Callable[[dict[str, jobs.JobResult]], None] | None = None
) -> dict[str, jobs.JobResult]:
    """`run_jobs` in this process: nothing to start, and what is patched here is patched for the jobs."""
    channel: queue.Queue[Any] = queue.Queue()
    found: dict[str, jobs.JobResult] = {}
    for job in wanted:
        found[job.name] = jobs.run_job(job, channel)
        if done:
            done(dict(found))
    return found
