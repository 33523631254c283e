"""Which of two judges is better on the same comparisons, with intervals and p-values; the tables of a sweep.

A judge's correctness on a comparison is 1, 0, or one half where it predicts a tie (a logit of exactly 0). The test
flips whole prompts, since comparisons that share a prompt are not independent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from crm.evaluation.predictions import Sample, read_predictions, to_samples
from crm.evaluation.results import read_results
from crm.report.statistics import Floats, correctness, holm, mean_interval
from crm.report.tables import caption, write_table
from crm.schema import Result
from crm.training.sweeps import SweepJob, differing, read_jobs

COLUMNS = ("suite", "judge", "accuracy", "low", "high", "n", "failure_rate", "tokens")
COUNTS = ("n", "clusters", "first_better", "second_better", "left_out")
LEVEL = 0.05
"""Holm-adjusted p-values below it tell two judges apart."""


def compare(first: Sequence[Sample], second: Sequence[Sample]) -> dict[str, Any]:
    """First judge minus second on the comparisons of one suite that have a label and a verdict of both.

    ``difference`` of the accuracies lies in [-1, 1]; its 95 % limits are Student's t, clustered by prompt, NaN for a
    single one. ``first_better`` and ``second_better`` count the comparisons on which one judge is more correct;
    ``left_out`` those of either judge that do not count. ``clustered_p`` is two-sided. Raises ``ValueError`` where
    nothing is left to compare, or where an id has another label or prompt for each judge.
    """
    one, two = ({sample.comparison_id: sample for sample in samples} for samples in (first, second))
    pairs = [(one[name], two[name]) for name in sorted(one.keys() & two.keys())]
    for sample, other in pairs:
        if (sample.label, sample.cluster) != (other.label, other.cluster):
            raise ValueError(
                f"comparison_id: {sample.comparison_id} has another label or prompt for each judge; "
                "they read different data"
            )
    judged = [pair for pair in pairs if all(side.label is not None and side.judged for side in pair)]
    if not judged:
        raise ValueError("comparisons: none with a label and a verdict of both judges")
    labels = [sample.label or 0 for sample, _ in judged]
    right, other_right = (correctness([pair[side].logit for pair in judged], labels) for side in (0, 1))
    difference, clusters = right - other_right, [sample.cluster for sample, _ in judged]
    found = mean_interval(difference, clusters)
    sums = pd.Series(difference).groupby(clusters).sum().to_numpy()
    return {
        "difference": found.mean,
        "low": found.low,
        "high": found.high,
        "n": found.n,
        "clusters": found.clusters,
        "first_better": int((difference > 0).sum()),
        "second_better": int((difference < 0).sum()),
        "clustered_p": sign_flip_p(sums),
        "left_out": len(one.keys() | two.keys()) - len(judged),
    }


def paired_frame(judges: Mapping[str, Mapping[str, Sequence[Sample]]]) -> pd.DataFrame:
    """A row for every two of ``judges``, by name, on every suite that both have read: `compare`, and the verdict.

    ``holm_p`` is the clustered p-value after Holm's correction over the whole table.
    """
    rows: list[dict[str, Any]] = []
    for suite in dict.fromkeys(name for suites in judges.values() for name in suites):
        for first, second in combinations([name for name in judges if suite in judges[name]], 2):
            row: dict[str, Any] = {"suite": suite, "first": first, "second": second}
            try:
                row |= compare(judges[first][suite], judges[second][suite])
            except ValueError as error:
                row["verdict"] = f"not compared: {error}"
            rows.append(row)
    compared = [row for row in rows if "verdict" not in row]
    for row, p in zip(compared, holm([row["clustered_p"] for row in compared]).tolist(), strict=True):
        winner = row["first"] if row["difference"] > 0 else row["second"]
        row |= {"holm_p": p, "verdict": f"{winner} is better" if p < LEVEL else "not distinguishable"}
    frame = pd.DataFrame(rows)
    return frame.astype({name: "Int64" for name in COUNTS if name in frame})


def sign_flip_p(sums: Floats) -> float:
    """Exact two-sided p-value of the sign-flip test of ``sums`` (G,), one a cluster, multiples of one half.

    Where two judges are alike, exchanging them within a prompt changes nothing, so that every cluster's sum of
    differences is as likely with either sign, however alike the comparisons inside it are (Canay, Romano and Shaikh
    2017, Econometrica 85:3; Fisher 1935). The share of the 2^G sign patterns whose absolute total is at least the one
    seen is counted, not drawn (shift algorithm, Streitberg and Roehmel 1986). Fewer than six clusters that differ
    never reach 0.05. With one comparison a cluster and no predicted ties it is McNemar's exact test.
    """
    doubled = np.rint(2 * np.asarray(sums, dtype=np.float64)).astype(np.int64)
    steps = np.sort(np.abs(doubled[doubled != 0]))
    chances = np.ones(1)  # of every total of the clusters with a plus
    for step in steps.tolist():
        zeros, half = np.zeros(step), chances / 2
        chances = np.append(half, zeros) + np.append(zeros, half)
    seen = abs(int(doubled.sum()))
    return min(1.0, 2 * float(chances[(int(steps.sum()) + seen) // 2 :].sum()))


@dataclass(frozen=True)
class EvaluatedJudge:
    """A judge in one run of ``evaluate.py``; ``results`` by suite and metric."""

    name: str
    samples: Mapping[str, Sequence[Sample]]
    results: Mapping[tuple[str, str], Result]


def write_sweep_tables(folder: Path) -> list[SweepJob]:
    """Write the tables of judges into the sweep's folder; its jobs, those whose results cannot be read as failed.

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
    if missing or any(judge.samples for judge in judges):
        write_judge_tables(folder, judges, missing)
    return jobs


def read_evaluation(folder: Path) -> EvaluatedJudge:
    """Read the run in ``folder``. Raises ``ValueError`` or ``OSError`` for a file that is missing or out of place."""
    run, results = read_results(folder / "results.json")
    files = run.get("files", {})  # benchmarks have none
    samples = to_samples(row for file in files.values() for row in read_predictions(file))
    return EvaluatedJudge(run["judge"], samples, {(result.suite, result.metric): result for result in results})


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
    paired = paired_frame({judge.name: judge.samples for judge in judges})
    known = {row.commit for judge in judges for row in judge.results.values()} - {""}
    commits = caption(commit=", ".join(sorted(known)))
    line = (
        "Accuracy with 95 % limits, clustered by prompt, of n labelled comparisons; tokens: per comparison; "
        f"which judges differ is in paired; {commits}"
    )
    write_table(folder, "judges", judge_frame(judges, missing), line)
    if not paired.empty:
        line = (
            "Accuracy of first minus second, 95 % limits clustered by prompt; clustered_p: exact sign-flip test over "
            f"prompts; holm_p: adjusted over the table, the verdict rests on it, at {LEVEL:g}; {commits}"
        )
        write_table(folder, "paired", paired, line)


def judge_frame(judges: Sequence[EvaluatedJudge], missing: Mapping[str, str]) -> pd.DataFrame:
    """A row a suite and judge; jobs without a result last."""
    rows: list[dict[str, Any]] = []
    for suite in dict.fromkeys(name for judge in judges for name in judge.samples):
        for judge in [one for one in judges if suite in one.samples]:
            row: dict[str, Any] = {"suite": suite, "judge": judge.name}
            if found := judge.results.get((suite, "accuracy")):
                row |= {"accuracy": found.value, "low": found.low, "high": found.high, "n": found.n}
            for metric in ("failure_rate", "tokens"):
                row[metric] = result.value if (result := judge.results.get((suite, metric))) else float("nan")
            rows.append(row)
    rows += [{"judge": name, "reason": reason} for name, reason in missing.items()]
    return pd.DataFrame(rows, columns=[*COLUMNS, *(["reason"] if missing else [])]).astype({"n": "Int64"})
