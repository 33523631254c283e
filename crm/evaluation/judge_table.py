"""Tables over the judges of a sweep: ``judges`` (accuracy by suite) and ``paired`` (which judges differ).

``python -m crm.evaluation.judge_table <folder>`` writes them, each ``.md``, ``.csv`` and ``.tex``, into the sweep's
folder; ``evaluate.py -m`` does so when it ends. Jobs that failed are listed with their reason.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from crm.evaluation.compare import LEVEL, PairOnSuite, compare_all
from crm.evaluation.predictions import Sample, read_predictions, to_samples
from crm.evaluation.results import read_results, read_run
from crm.report.tables import caption, number, remove_table, write_table
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

    @property
    def tokens(self) -> float:
        """Mean per comparison over all suites, both orders; NaN where the judge counts none."""
        known = [row.tokens for rows in self.samples.values() for row in rows if row.tokens == row.tokens]
        return sum(known) / len(known) if known else float("nan")


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


def read_evaluation(folder: Path, working_directory: Path) -> EvaluatedJudge:
    """Read the run in ``folder``; paths in its ``results.json`` are relative to ``working_directory``.

    Raises ``ValueError`` for a file or field that is missing or out of place.
    """
    path = folder / "results.json"
    run, results = read_run(path), read_results(path)
    try:
        name, files, cost = str(run["judge"]), dict(run["files"]), run["cost"]
        seconds, made = float(cost["seconds"]), int(cost["readings_made"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: run: missing or out of place: {error!s:.80}; evaluate again") from None
    predictions = []
    for suite, file in files.items():
        place = working_directory / str(file)
        if not place.is_file():
            raise ValueError(f"{path}: files: {suite}: {place} is not there; evaluate again")
        predictions += read_predictions(place)
    by_metric = {(result.suite, result.metric): result for result in results}
    commits = " ".join(sorted({result.commit for result in results}))
    return EvaluatedJudge(name, to_samples(predictions), by_metric, seconds, made, commits)


def working_directory(folder: Path) -> Path:
    """Where the run in ``folder`` was started, from its ``.hydra``; the present one where that is not recorded."""
    try:
        recorded = OmegaConf.select(OmegaConf.load(folder / ".hydra/hydra.yaml"), "hydra.runtime.cwd")
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
    pairs = compare_all({judge.name: judge.samples for judge in judges}, seed)
    compared = sum(pair.result is not None for pair in pairs)
    commits = caption(commit=", ".join(sorted({judge.commit for judge in judges} - {""})))
    frame = judge_frame(judges, pairs, missing)
    below = [
        "Accuracy with 95 % intervals, clustered by prompt; n labelled comparisons with a verdict",
        f"{BEST}: the highest of the suite",
        f"{ALIKE}: not distinguishable from it (sign-flip test over prompts on common comparisons, Holm-adjusted p of "
        f"{LEVEL:g} or more over {compared} pairs of judges and suites)",
        f"{NOT_COMPARED}: could not be compared with it",
        "no mark: they differ by more than chance",
        "seconds are of the readings that this run made itself",
        *filter(None, [commits]),
    ]
    write_table(folder, "judges", frame, "; ".join(below), shown_judges(frame, judges))
    if not pairs:
        remove_table(folder, "paired")
        return
    below = [
        "Accuracy of first minus second on the comparisons with a verdict of both, 95 % bootstrap over prompts",
        "mcnemar_p: exact, as if comparisons were independent; a tie predicted by one judge only is discordant",
        "clustered_p: exact sign-flip test over prompts, a predicted tie counts one half",
        f"holm_p: clustered_p adjusted over {compared} rows; the verdict rests on it, at {LEVEL:g}",
        f"bootstrap seed {seed}",
        *filter(None, [commits]),
    ]
    paired = paired_frame(pairs)
    small = {name: [_p(value) for value in paired[name]] for name in paired if str(name).endswith("_p")}
    write_table(folder, "paired", paired, "; ".join(below), paired.assign(**small).astype(object).fillna("–"))


def judge_frame(
    judges: Sequence[EvaluatedJudge], pairs: Sequence[PairOnSuite], missing: Mapping[str, str]
) -> pd.DataFrame:
    """A row a judge and suite, numbers in full precision; ``mark`` compares with the best judge of the suite."""
    rows: list[dict[str, Any]] = []
    for judge in judges:
        for suite in judge.samples:
            row: dict[str, Any] = {"judge": judge.name, "suite": suite}
            accuracy = judge.results.get((suite, "accuracy"))
            if accuracy is not None:
                row |= {"accuracy": accuracy.value, "low": accuracy.low, "high": accuracy.high, "n": accuracy.n}
            for metric in ("failure_rate", "tokens"):
                found = judge.results.get((suite, metric))
                row[metric] = found.value if found else float("nan")
            row["mark"] = _mark(judge, suite, judges, pairs)
            rows.append(row | {"seconds_of_run": judge.seconds, "readings_made_by_run": judge.readings_made})
    rows += [{"judge": name, "reason": reason} for name, reason in missing.items()]
    columns = ["judge", "suite", "accuracy", "low", "high", "n", "failure_rate", "tokens", "mark", "seconds_of_run"]
    return pd.DataFrame(rows, columns=[*columns, "readings_made_by_run", "reason"]).astype({"n": "Int64"})


def shown_judges(frame: pd.DataFrame, judges: Sequence[EvaluatedJudge]) -> pd.DataFrame:
    """`judge_frame` for people: a row a judge, a column a suite, and its cost; jobs without a result last."""
    rows: dict[str, dict[str, Any]] = {}
    for row in frame.itertuples():
        cells = rows.setdefault(row.judge, {"judge": row.judge})
        if isinstance(row.reason, str):
            cells["no result because"] = row.reason
            continue
        parts = [number(row.accuracy, row.low, row.high)] + [f"n {row.n}"] * pd.notna(row.n)
        parts += [f"{100 * row.failure_rate:.1f} % failed"] * (row.failure_rate > 0)
        cells[row.suite] = ", ".join([*parts, row.mark] if row.mark else parts)
    for judge in judges:
        made = f"{number(judge.seconds, digits=1)} ({judge.readings_made} readings)"
        rows[judge.name] |= {"tokens per comparison": number(judge.tokens, digits=1), "seconds": made}
    suites = frame["suite"].dropna().unique()
    columns = ["judge", *suites, "tokens per comparison", "seconds"]
    columns += ["no result because"] * bool(frame["reason"].notna().any())
    return pd.DataFrame(rows.values(), columns=columns).astype(object).fillna("–")


def paired_frame(pairs: Sequence[PairOnSuite]) -> pd.DataFrame:
    """A row a pair of judges and suite: fields of `Paired`, the adjusted p-value and the verdict."""
    rows = []
    for pair in pairs:
        row: dict[str, Any] = {"suite": pair.suite, "first": pair.first, "second": pair.second}
        if pair.result:
            left_out = {f"left_out_{why.replace(' ', '_')}": count for why, count in pair.result.left_out.items()}
            row |= {name: value for name, value in asdict(pair.result).items() if name != "left_out"} | left_out
        rows.append(row | {"holm_p": pair.adjusted_p, "verdict": _verdict(pair)})
    return pd.DataFrame(rows)


def _verdict(pair: PairOnSuite) -> str:
    if pair.result is None:
        return f"not compared: {pair.reason}"
    if not pair.distinguishable:
        return "not distinguishable"
    return f"{pair.first if pair.result.difference > 0 else pair.second} is better"


def _mark(judge: EvaluatedJudge, suite: str, judges: Sequence[EvaluatedJudge], pairs: Sequence[PairOnSuite]) -> str:
    """`BEST`, how it compares with the best, or nothing: distinguishable, or nobody to compare with."""
    rated = {one.name: one.results[suite, "accuracy"].value for one in judges if (suite, "accuracy") in one.results}
    if judge.name not in rated or len(rated) < 2:
        return ""
    best = max(rated, key=lambda name: rated[name])
    if rated[judge.name] == rated[best]:  # several can be the highest
        return BEST
    pair = next(row for row in pairs if row.suite == suite and {row.first, row.second} == {judge.name, best})
    if pair.result is None:
        return NOT_COMPARED
    return "" if pair.distinguishable else ALIKE


def _p(value: float) -> str:
    return "<0.001" if value < 0.001 else number(value)


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
