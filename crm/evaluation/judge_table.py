"""Tables over the judges of a sweep: ``judges`` (accuracy by suite) and ``paired`` (which judges differ).

``python -m crm.evaluation.judge_table <folder>`` writes them, each ``.md``, ``.csv`` and ``.tex``, into the sweep's
folder; ``evaluate.py -m`` does so when it ends. Jobs that failed are listed with their reason.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from crm.evaluation.compare import LEVEL, paired_frame
from crm.evaluation.predictions import Sample, read_predictions, to_samples
from crm.evaluation.results import read_results
from crm.report.tables import caption, write_table
from crm.schema import Result
from crm.training.sweeps import SweepJob, differing, read_jobs

BEST, ALIKE, NOT_COMPARED = "best", "≈", "?"
COLUMNS = ("suite", "judge", "accuracy", "low", "high", "n", "failure_rate", "tokens", "mark")
SEED = 0
"""Of the bootstrap."""


@dataclass(frozen=True)
class EvaluatedJudge:
    """A judge in one run of ``evaluate.py``; ``results`` by suite and metric."""

    name: str
    samples: Mapping[str, Sequence[Sample]]
    results: Mapping[tuple[str, str], Result]
    commit: str = ""


def write_tables_of_judges(folder: Path) -> list[SweepJob]:
    """Write the tables into the sweep's folder; its jobs, those whose results cannot be read as failed.

    Raises ``ValueError`` where there are no jobs.
    """
    jobs = read_jobs(folder, "evaluate")
    read: dict[str, EvaluatedJudge] = {}
    for index, job in enumerate(jobs):
        if job.status == "finished":
            try:
                read[job.name] = read_evaluation(folder / job.name)
            except (ValueError, OSError) as error:
                jobs[index] = replace(job, status="failed", reason=str(error))
    names = unique_names(jobs, {job: judge.name for job, judge in read.items()})
    judges = [replace(judge, name=names[job]) for job, judge in read.items()]
    missing = {names[job.name]: f"{job.status}: {job.reason}" for job in jobs if job.name not in read}
    write_judge_tables(folder, judges, missing)
    return jobs


def read_evaluation(folder: Path) -> EvaluatedJudge:
    """Read the run in ``folder``. Raises ``ValueError`` or ``OSError`` for a file that is missing or out of place."""
    run, results = read_results(folder / "results.json")
    samples = to_samples(row for file in run["files"].values() for row in read_predictions(file))
    by_metric = {(result.suite, result.metric): result for result in results}
    return EvaluatedJudge(run["judge"], samples, by_metric, results[0].commit)


def unique_names(jobs: list[SweepJob], judges: Mapping[str, str]) -> dict[str, str]:
    """A name for every job: of its judge, with the settings in which it differs from others of that name.

    ``judges`` gives the judge's name for every job that has one; the others go by the settings in which jobs differ.
    """
    names: dict[str, str] = {}
    for job in jobs:
        judge = judges.get(job.name, "")
        alike = [other for other in jobs if judges.get(other.name) == judge] if judge else jobs
        settings = " ".join(f"{key}={job.overrides[key]}" for key in differing(alike) if key in job.overrides)
        names[job.name] = f"{judge} ({settings})" if judge and settings else judge or settings or f"job {job.name}"
    count = Counter(names.values())
    return {job: f"{name} (job {job})" if count[name] > 1 else name for job, name in names.items()}


def write_judge_tables(folder: Path, judges: Sequence[EvaluatedJudge], missing: Mapping[str, str]) -> None:
    """Write ``judges`` and, for two judges or more, ``paired`` into ``folder``, each ``.md``, ``.csv`` and ``.tex``.

    Names of ``judges`` are unique. ``missing`` gives the reason of every job without a result, by its name.
    """
    paired = paired_frame({judge.name: judge.samples for judge in judges}, SEED)
    commits = caption(commit=", ".join(sorted({judge.commit for judge in judges} - {""})))
    line = (
        f"Accuracy with 95 % limits, clustered by prompt, of n labelled comparisons; {BEST}: the highest of the suite; "
        f"{ALIKE}: not distinguishable from it (Holm-adjusted p of {LEVEL:g} or more); {NOT_COMPARED}: could not be "
        f"compared with it; tokens: per comparison; {commits}"
    )
    write_table(folder, "judges", judge_frame(judges, paired, missing), line)
    if not paired.empty:
        line = (
            "Accuracy of first minus second, 95 % bootstrap over prompts; clustered_p: exact sign-flip test over "
            f"prompts; holm_p: adjusted over the table, the verdict rests on it, at {LEVEL:g}; {commits}"
        )
        write_table(folder, "paired", paired, line)


def judge_frame(judges: Sequence[EvaluatedJudge], paired: pd.DataFrame, missing: Mapping[str, str]) -> pd.DataFrame:
    """A row a suite and judge; ``mark`` compares with the best judge of the suite; jobs without a result last."""
    rows: list[dict[str, Any]] = []
    for suite in dict.fromkeys(name for judge in judges for name in judge.samples):
        rated = {one.name: one.results[suite, "accuracy"] for one in judges if (suite, "accuracy") in one.results}
        for judge in [one for one in judges if suite in one.samples]:
            row: dict[str, Any] = {"suite": suite, "judge": judge.name}
            if found := rated.get(judge.name):
                row |= {"accuracy": found.value, "low": found.low, "high": found.high, "n": found.n}
            for metric in ("failure_rate", "tokens"):
                row[metric] = result.value if (result := judge.results.get((suite, metric))) else float("nan")
            mark = _mark(judge.name, suite, {name: own.value for name, own in rated.items()}, paired)
            rows.append(row | {"mark": mark})
    rows += [{"judge": name, "reason": reason} for name, reason in missing.items()]
    return pd.DataFrame(rows, columns=[*COLUMNS, *(["reason"] if missing else [])]).astype({"n": "Int64"})


def _mark(judge: str, suite: str, rated: Mapping[str, float], paired: pd.DataFrame) -> str:
    """`BEST`, how it compares with the best, or nothing: distinguishable, or nobody to compare with."""
    if judge not in rated or len(rated) < 2:
        return ""
    best = max(rated, key=lambda name: rated[name])
    if rated[judge] == rated[best]:  # several can be the highest
        return BEST
    both = paired["first"].isin([judge, best]) & paired["second"].isin([judge, best]) & (paired["suite"] == suite)
    verdict = str(paired.loc[both, "verdict"].item())
    return NOT_COMPARED if verdict.startswith("not compared") else ALIKE if verdict == "not distinguishable" else ""


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m crm.evaluation.judge_table <folder of a sweep>")
    try:
        write_tables_of_judges(folder := Path(sys.argv[1]))
    except (ValueError, OSError) as error:
        sys.exit(f"judge_table: {error}")
    for name in ("judges.md", "paired.md"):
        if (folder / name).is_file():
            print((folder / name).read_text(encoding="utf-8"))
