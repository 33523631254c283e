"""Tables over the judges of a sweep. In: ``python -m crm.evaluation.judge_sweep <folder>``. Out: files beside it.

``judges`` and ``paired``, each ``.md``, ``.csv`` and ``.tex``, see `crm.evaluation.judge_table`. Jobs that failed are
in the table with their reason. ``evaluate.py -m`` writes all of them when it ends.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from crm.evaluation.judge_table import EvaluatedJudge, read_evaluation, write_judge_tables
from crm.training.sweeps import SweepJob, differing, read_jobs

HYDRA = ".hydra/hydra.yaml"


def write_tables_of_judges(folder: Path, seed: int = 0) -> list[SweepJob]:
    """Write the tables into the sweep's folder; its jobs, those whose results cannot be read as failed.

    Raises ``ValueError`` where there are no jobs.
    """
    jobs = read_jobs(folder, "evaluate")
    read: dict[str, EvaluatedJudge] = {}
    for index, job in enumerate(jobs):
        if job.status == "finished":
            try:
                read[job.name] = read_evaluation(folder / job.name, working_directory(folder / job.name))
            except (ValueError, OSError) as error:
                jobs[index] = replace(job, status="failed", reason=str(error))
    names = unique_names(jobs, {job: judge.name for job, judge in read.items()})
    judges = [replace(judge, name=names[job]) for job, judge in read.items()]
    missing = {names[job.name]: f"{job.status}: {job.reason}" for job in jobs if job.name not in read}
    write_judge_tables(folder, judges, missing, seed)
    return jobs


def working_directory(folder: Path) -> Path:
    """Where the run in ``folder`` was started, from its ``.hydra``; the present one where that is not recorded."""
    try:
        recorded = OmegaConf.select(OmegaConf.load(folder / HYDRA), "hydra.runtime.cwd")
    except (OSError, ValueError, OmegaConfBaseException, YAMLError):
        recorded = None
    return Path(recorded) if isinstance(recorded, str) and Path(recorded).is_dir() else Path.cwd()


def unique_names(jobs: list[SweepJob], judges: Mapping[str, str]) -> dict[str, str]:
    """A name for every job: of its judge, with the settings in which it differs from others of that name.

    ``judges`` gives the judge's name for every job that has one; the others go by the settings in which jobs differ.
    """
    names: dict[str, str] = {}
    for job in jobs:
        judge = judges.get(job.name, "")
        alike = [other for other in jobs if other.name in judges and judges[other.name] == judge] if judge else jobs
        settings = " ".join(f"{key}={job.overrides[key]}" for key in differing(alike) if key in job.overrides)
        names[job.name] = f"{judge} ({settings})" if judge and settings else judge or settings or f"job {job.name}"
    twice = [name for name in names.values() if list(names.values()).count(name) > 1]
    return {job: f"{name} (job {job})" if name in twice else name for job, name in names.items()}


def main() -> None:
    """Write the tables and print them; exit code 2 for a folder without jobs."""
    parser = argparse.ArgumentParser(prog="crm.evaluation.judge_sweep", description="Tables over a sweep's judges.")
    parser.add_argument("folder", type=Path, help="of the sweep, such as multirun/evaluate/<date>/<time>")
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap")
    given = parser.parse_args()
    try:
        write_tables_of_judges(given.folder, given.seed)
    except (ValueError, OSError) as error:
        print(f"judge_table: {error}", file=sys.stderr)
        sys.exit(2)
    for name in ("judges.md", "paired.md"):
        if (given.folder / name).is_file():
            print((given.folder / name).read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
