"""Tables that ``train.py -m`` writes when it ends, ``sweep`` and ``seeds`` (md, csv, tex).

``sweep`` has a row a job, failed and unfinished ones with their reason; ``seeds`` has means with intervals over jobs
that differ in nothing but the seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from crm.report.statistics import mean_interval
from crm.report.tables import caption, write_table
from crm.training.sweeps import SweepJob, differing, read_jobs

MEASURED = {"validation_loss": math.inf, "validation_accuracy": 1.0}
"""Columns of numbers, each with the most it can be; the least is 0."""


def job_table(jobs: Sequence[SweepJob]) -> pd.DataFrame:
    """A row a job: its name, status, the settings in which jobs differ, its numbers, and why it did not finish."""
    rows: list[dict[str, Any]] = []
    for job in jobs:
        row: dict[str, Any] = {"job": job.name, "status": job.status}
        row |= {key: job.overrides.get(key, "–") for key in differing(jobs)}
        row |= {name: job.numbers.get(name, math.nan) for name in MEASURED}
        row |= {name: job.numbers.get(name, "") for name in ("validation_n", "steps")}
        row["seconds"] = job.numbers.get("seconds", math.nan)
        rows.append(row | {"reason": job.reason})
    return pd.DataFrame(rows)


def seed_table(jobs: Sequence[SweepJob]) -> pd.DataFrame:
    """A row a setting: means over its seeds with 95 % limits (Student's t), ``n`` finished jobs and how many are not.

    Empty unless two jobs differ in ``seed`` only. A single seed says nothing about spread and has no limits.
    """
    table, settings = job_table(jobs), [key for key in differing(jobs) if key != "seed"]
    if "seed" not in table:
        return pd.DataFrame()
    groups = table.groupby(settings or (lambda _: 0), sort=False)
    if groups["seed"].nunique().max() < 2:
        return pd.DataFrame()
    return pd.DataFrame([_group_row(settings, group) for _, group in groups])


def _group_row(settings: Sequence[str], group: pd.DataFrame) -> dict[str, Any]:
    done = group[group["status"] == "finished"]
    row: dict[str, Any] = {key: group[key].iloc[0] for key in settings}
    row |= {"n": len(done), "not finished": len(group) - len(done)}
    for name, most in MEASURED.items():
        mean = low = high = math.nan
        values = done[name].tolist()
        if values and not any(map(math.isnan, values)):  # a mean over some of the seeds would not be theirs
            interval = mean_interval(values)
            mean = interval.mean
            if interval.clusters > 1:
                low, high = max(interval.low, 0.0), min(interval.high, most)
        row |= {name: mean, f"{name} low": low, f"{name} high": high}
    return row | {"validation_n": done["validation_n"].min()}


def write_sweep_tables(folder: Path) -> list[SweepJob]:
    """Write the tables into the sweep's folder and return its jobs. Raises ``ValueError`` where there are none."""
    jobs = read_jobs(folder)
    varied, states = differing(jobs), [job.status for job in jobs]
    common = " ".join(f"{key}={value}" for key, value in jobs[0].overrides.items() if key not in varied)
    counted = ", ".join(f"{states.count(status)} {status}" for status in dict.fromkeys(states))
    commits = ", ".join(dict.fromkeys(job.commit for job in jobs if job.commit))
    line = f"{len(jobs)} jobs: {counted}; " + caption(config=common or "as in conf/", commit=commits)
    write_table(folder, "sweep", job_table(jobs), line)
    if not (means := seed_table(jobs)).empty:
        write_table(folder, "seeds", means, f"Mean over seeds and 95 % interval; {line}")
    return jobs
