"""Tables over the judges of a sweep: ``judges`` (accuracy by suite) and ``paired`` (which judges differ).

``python -m crm.evaluation.judge_table <folder>`` writes them, each ``.md``, ``.csv`` and ``.tex``, into the sweep's
folder; ``evaluate.py -m`` does so when it ends. Jobs that failed are listed with their reason.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from crm.evaluation.compare import LEVEL, paired_frame
from crm.evaluation.predictions import Sample, read_predictions, to_samples
from crm.evaluation.results import read_results, read_run
from crm.report.tables import caption, remove_table, write_table
from crm.schema import Result
from crm.training.sweeps import SweepJob, differing, read_jobs

BEST, ALIKE, NOT_COMPARED = "best", "≈", "?"


@dataclass(frozen=True)
class EvaluatedJudge:
    """A judge in one run of ``evaluate.py``; ``results`` by suite and metric.

    ``seconds`` were spent on the ``readings_made`` by the run itself; the others were in the files before.
    """

    name: str
    samples: Mapping[str, Sequence[Sample]]
    results: Mapping[tuple[str, str], Result]
    seconds: float
    readings_made: int
    commit: str = ""


def write_tables_of_judges(folder: Path, seed: int = 0) -> list[SweepJob]:
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
    write_judge_tables(folder, judges, missing, seed)
    return jobs


def read_evaluation(folder: Path) -> EvaluatedJudge:
    """Read the run in ``folder``. Raises ``ValueError`` for a file or field that is missing or out of place."""
    path = folder / "results.json"
    run, results = read_run(path), read_results(path)
    try:
        name, files, cost = str(run["judge"]), dict(run["files"]), run["cost"]
        seconds, made = float(cost["seconds"]), int(cost["readings_made"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: run: missing or out of place: {error!s:.80}; evaluate again") from None
    if gone := [file for file in files.values() if not Path(file).is_file()]:
        raise ValueError(f"{path}: files: {gone[0]} is not there; evaluate again")
    samples = to_samples(row for file in files.values() for row in read_predictions(file))
    by_metric = {(result.suite, result.metric): result for result in results}
    commits = " ".join(sorted({result.commit for result in results}))
    return EvaluatedJudge(name, samples, by_metric, seconds, made, commits)


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


def write_judge_tables(folder: Path, judges: Sequence[EvaluatedJudge], missing: Mapping[str, str], seed: int) -> None:
    """Write ``judges`` and, for two judges or more, ``paired`` into ``folder``, each ``.md``, ``.csv`` and ``.tex``.

    Names of ``judges`` are unique. ``missing`` gives the reason of every job without a result, by its name; ``seed``
    is of the bootstrap.
    """
    paired = paired_frame({judge.name: judge.samples for judge in judges}, seed)
    commits = caption(commit=", ".join(sorted({judge.commit for judge in judges} - {""})))
    line = (
        f"Accuracy with 95 % limits, clustered by prompt, of n labelled comparisons; {BEST}: the highest of the suite; "
        f"{ALIKE}: not distinguishable from it (Holm-adjusted p of {LEVEL:g} or more); {NOT_COMPARED}: could not be "
        "compared with it; tokens: per comparison; seconds: of the readings that the run made itself"
    )
    write_table(folder, "judges", judge_frame(judges, paired, missing), "; ".join(filter(None, [line, commits])))
    if paired.empty:
        remove_table(folder, "paired")
        return
    line = (
        "Accuracy of first minus second, 95 % bootstrap over prompts; mcnemar_p: exact, as if comparisons were "
        "independent; clustered_p: exact sign-flip test over prompts; holm_p: adjusted over the table, the verdict "
        f"rests on it, at {LEVEL:g}; bootstrap seed {seed}"
    )
    write_table(folder, "paired", paired, "; ".join(filter(None, [line, commits])))


def judge_frame(judges: Sequence[EvaluatedJudge], paired: pd.DataFrame, missing: Mapping[str, str]) -> pd.DataFrame:
    """A row a suite and judge; ``mark`` compares with the best judge of the suite; jobs without a result last."""
    rows: list[dict[str, Any]] = []
    for suite in dict.fromkeys(name for judge in judges for name in judge.samples):
        rated = {one.name: one.results[suite, "accuracy"] for one in judges if (suite, "accuracy") in one.results}
        for judge in judges:
            if suite not in judge.samples:
                continue
            row: dict[str, Any] = {"suite": suite, "judge": judge.name}
            if found := rated.get(judge.name):
                row |= {"accuracy": found.value, "low": found.low, "high": found.high, "n": found.n}
            for metric in ("failure_rate", "tokens"):
                row[metric] = result.value if (result := judge.results.get((suite, metric))) else float("nan")
            row |= {"mark": _mark(judge.name, suite, {name: own.value for name, own in rated.items()}, paired)}
            rows.append(row | {"seconds_of_run": judge.seconds, "readings_made_by_run": judge.readings_made})
    rows += [{"judge": name, "reason": reason} for name, reason in missing.items()]
    columns = ["suite", "judge", "accuracy", "low", "high", "n", "failure_rate", "tokens", "mark", "seconds_of_run"]
    columns += ["readings_made_by_run", *(["reason"] if missing else [])]
    return pd.DataFrame(rows, columns=columns).astype({"n": "Int64", "readings_made_by_run": "Int64"})


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


def main() -> None:
    """Write the tables and print them; exit code 2 for a folder without jobs."""
    parser = argparse.ArgumentParser(prog="crm.evaluation.judge_table", description="Tables over a sweep's judges.")
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
