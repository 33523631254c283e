"""One table of a sweep. In: ``python -m crm.training.sweep_table <folder>``. Out: ``sweep.md``, ``.csv``, ``.tex``.

A row a job, failed and unfinished ones with their reason. Where jobs differ in nothing but the seed, ``seeds.md``,
``.csv`` and ``.tex`` give their means with intervals. ``train.py -m`` writes all of them when it ends.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from crm.report.statistics import mean_interval
from crm.report.tables import caption, remove_table, write_table
from crm.training.sweep_jobs import SweepJob, differing, read_jobs

MEASURED = {"validation_loss": math.inf, "validation_accuracy": 1.0}
"""Columns of numbers, each with the most it can be; the least is 0."""


def job_table(jobs: Sequence[SweepJob]) -> pd.DataFrame:
    """A row a job: its name, status, the settings in which jobs differ, its numbers, and why it did not finish."""
    rows: list[dict[str, Any]] = []
    for job in jobs:
        row: dict[str, Any] = {"job": job.name, "status": job.status}
        row |= {key: job.overrides.get(key, "–") for key in differing(jobs)}
        row |= {name: job.numbers.get(name, float("nan")) for name in MEASURED}
        row |= {"steps": job.numbers.get("steps", ""), "seconds": job.numbers.get("seconds", float("nan"))}
        rows.append(row | {"reason": job.reason})
    return pd.DataFrame(rows)


def seed_table(jobs: Sequence[SweepJob]) -> pd.DataFrame:
    """A row a setting: means over its seeds with 95 % limits (Student's t), ``n`` finished jobs and how many are not.

    Empty unless two jobs differ in ``seed`` only. A single seed says nothing about spread and has no limits.
    """
    groups: dict[tuple[tuple[str, str], ...], list[SweepJob]] = {}
    for job in jobs:
        groups.setdefault(_without_seed(job), []).append(job)
    if all(len({job.overrides.get("seed") for job in group}) < 2 for group in groups.values()):
        return pd.DataFrame()
    settings = [key for key in differing(jobs) if key != "seed"]
    return pd.DataFrame([_group_row(settings, group) for group in groups.values()])


def write_sweep_tables(folder: Path) -> list[SweepJob]:
    """Write the tables into the sweep's folder and return its jobs. Raises ``ValueError`` where there are none."""
    jobs = read_jobs(folder)
    line = _caption(jobs)
    write_table(folder, "sweep", job_table(jobs), line)
    means = seed_table(jobs)
    if means.empty:
        remove_table(folder, "seeds")
    else:
        write_table(folder, "seeds", means, f"Mean over seeds and 95 % interval; {line}")
    return jobs


def main() -> None:
    """Write the tables and print them; exit code 2 for a folder without jobs."""
    parser = argparse.ArgumentParser(prog="crm.training.sweep_table", description="One table of a sweep's jobs.")
    parser.add_argument("folder", type=Path, help="of the sweep, such as multirun/train/<date>/<time>")
    folder = parser.parse_args().folder
    try:
        write_sweep_tables(folder)
    except (ValueError, OSError) as error:
        print(f"sweep_table: {error}", file=sys.stderr)
        sys.exit(2)
    for name in ("sweep.md", "seeds.md"):
        if (folder / name).is_file():
            print((folder / name).read_text(encoding="utf-8"))


def _without_seed(job: SweepJob) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((key, value) for key, value in job.overrides.items() if key != "seed"))


def _group_row(settings: Sequence[str], group: Sequence[SweepJob]) -> dict[str, Any]:
    finished = [job for job in group if job.status == "finished"]
    row: dict[str, Any] = {key: group[0].overrides.get(key, "–") for key in settings}
    row |= {"n": len(finished), "not finished": len(group) - len(finished)}
    for name, most in MEASURED.items():
        mean = low = high = float("nan")
        values = [job.numbers[name] for job in finished]
        if values and not any(map(math.isnan, values)):  # a mean over some of the seeds would not be theirs
            interval = mean_interval(values)
            mean = interval.mean
            if interval.clusters > 1:
                low, high = max(interval.low, 0.0), min(interval.high, most)
        row |= {name: mean, f"{name} low": low, f"{name} high": high}
    return row


def _caption(jobs: Sequence[SweepJob]) -> str:
    varied = differing(jobs)
    common = " ".join(f"{key}={value}" for key, value in jobs[0].overrides.items() if key not in varied)
    states = [job.status for job in jobs]
    counted = ", ".join(f"{states.count(status)} {status}" for status in dict.fromkeys(states))
    commits = ", ".join(dict.fromkeys(job.commit for job in jobs if job.commit))
    return f"{len(jobs)} jobs: {counted}; " + caption(config=common or "as in conf/", commit=commits)


if __name__ == "__main__":
    main()
