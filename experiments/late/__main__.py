"""``python -m experiments.late``: heads at equal compute on the simulated arena. Out: ``results.json`` and a table.

A late head that keeps 1, 4, 16 or 64 states of a response, one that is trained on noised criteria, one that reads all
criteria of a user as one text, one that learns the verdicts of the scalar head instead of the votes, and the heads that
read criteria and response together: each trained from scratch for the same number of comparisons on the same data,
without a warm-up.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean

import pandas as pd
from rich.progress import track

from crm.config import compose
from crm.data.comparisons import make_comparisons
from crm.data.load import load_data
from crm.data.own import write_preferences
from crm.io.files import replace_file
from crm.judges.crm_judge import CrmJudge, open_checkpoint
from crm.judges.judge import Asked
from crm.report.tables import write_table
from crm.schema import Preference, Result
from experiments.command import answered, parsed
from experiments.jobs import Job, commits, run_jobs
from experiments.late.boards import boards

KEPT = (1, 4, 16, 64)
OTHERS = ("scalar", "pairwise", "pairwise_span")
VARIANTS = {
    "noised": ("noise=random",),
    "together": (),
    "without_penalty": ("loss.off_criteria_penalty=0",),
    "distilled": (),
}
"""Of the head that keeps 16 states of 64 numbers, with three layers for responses and for criteria."""
TEACHER = "scalar"
"""Who says what ``distilled`` learns; trained before it."""
LOSS = {"pairwise": "cls", "pairwise_span": "cls"}
LATE = ("optimizer.lr=1e-3", "loss.off_criteria_penalty=0.3")
"""Of the late head alone: half the rate that the others learn best with, and the loss that only it can have."""
BASES = ("D", "T", "C")
"""Unseen prompts, unseen topics, unseen criteria."""


def main(words: Sequence[str] | None = None) -> int:
    """Command line: which rows, how many steps, and overrides of ``train.py`` for all of them."""
    parser = argparse.ArgumentParser(prog="python -m experiments.late", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("results/late"))
    parser.add_argument("--report", type=Path, help="where the tables go; by default --out")
    parser.add_argument("--rows", nargs="+", default=[*(f"kept_{kept}" for kept in KEPT), *VARIANTS, *OTHERS])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("overrides", nargs="*")
    given = parsed(parser, words)
    return answered("late", lambda: run(given))


def run(given: argparse.Namespace) -> None:
    """Train, the pupil after its teacher, rank and report."""
    pupils = [row for row in given.rows if row == "distilled"]
    jobs = [job(row, given) for row in given.rows if row not in pupils]
    finished = run_jobs(jobs, min(len(jobs), os.cpu_count() or 1)) if jobs else {}
    taught = [job(row, given) for row in pupils]
    finished |= run_jobs(taught, 1) if taught else {}
    ranked = {
        made.name: boards(open_checkpoint(made.folder / "model", batch_size=256, precision="32-true")[0])
        for made in track([*jobs, *taught], "leaderboards")
    }
    report({name: made.results["suites"] for name, made in finished.items()}, ranked, given)


def job(row: str, given: argparse.Namespace) -> Job:
    """One row of the table. Raises ``ValueError`` for a row that is no head, no variant and no ``kept_<states>``."""
    kept = row.removeprefix("kept_")
    if row not in (*OTHERS, *VARIANTS) and not (row.startswith("kept_") and kept.isdigit()):
        known = ", ".join((*VARIANTS, *OTHERS))
        raise ValueError(f"--rows: {row!r}: expected kept_<states> or one of {known}")
    head = (f"head={row}",) if row in OTHERS else ("head=late", f"head.kept={kept if kept.isdigit() else 16}")
    data = tuple(word for word in given.overrides if word.startswith("data."))
    tested = data
    if row == "together":
        tested = data = ("data=file", f"data.path='{joined(given.out / 'joined', data)}'")
    if row == "distilled":
        data = ("data=file", f"data.path='{relabelled(given.out / 'relabelled', data, given.out / TEACHER)}'")
    words = (
        *head,
        f"loss={LOSS.get(row, 'ranking')}",
        *(() if row in OTHERS else LATE),
        *VARIANTS.get(row, ()),
        "direction=both",
        "schedule.comparisons_per_step=32",
        f"schedule.max_steps={given.steps}",
        f"schedule.epochs={1 + given.steps // 1000}",
        "schedule.validate_every=500",
        f"seed={given.seed}",
        *given.overrides,
        *data,
    )
    return Job(row, given.out / row, words, {"suites": (*tested, "suite=all")})


def joined(folder: Path, data: Sequence[str]) -> Path:
    """The simulated arena as a dataset in which all criteria of a side are one text, as a prompt lists them."""
    config = compose("train", list(data), folder)
    splits = load_data(config.data, criteria=config.criteria)

    def side(criteria: Sequence[str]) -> tuple[str, ...]:
        return ("\n- ".join(criteria),) if criteria else ()

    for name, rows in {"train": splits.train, "validation": splits.validation, **splits.suites}.items():
        changed = [replace(row, criteria_a=side(row.criteria_a), criteria_b=side(row.criteria_b)) for row in rows]
        write_preferences(folder / "splits" / f"{name}.parquet", changed)
    return folder


def relabelled(folder: Path, data: Sequence[str], teacher: Path) -> Path:
    """The simulated arena with a teacher's verdicts for votes: a preference for each side that has criteria.

    Raises ``ValueError`` where the teacher was not trained yet.
    """
    if not (teacher / "model").is_dir():
        raise ValueError(f"--rows: distilled learns from {TEACHER}, which is not in {teacher}; name it among the rows")
    config = compose("train", list(data), folder)
    splits = load_data(config.data, criteria=config.criteria)
    judge = open_checkpoint(teacher / "model", batch_size=256, precision="32-true")[0]
    seen = {name: list(verdicts(judge, getattr(splits, name), name)) for name in ("train", "validation")}
    for name, rows in {**seen, **splits.suites}.items():
        write_preferences(folder / "splits" / f"{name}.parquet", rows)
    return folder


def verdicts(judge: CrmJudge, preferences: Sequence[Preference], name: str) -> Iterator[Preference]:
    """What the judge says of each pair under the criteria of each side; nothing of what it cannot read or decide."""
    own = {row.id: row for row in preferences}
    asked, _ = make_comparisons(preferences, direction="both", noise="none", pool=None, seed=0, epoch=0)
    for start in track(range(0, len(asked), judge.together), f"verdicts, {name}"):
        portion: list[Asked] = [(row, "ab") for row in asked[start : start + judge.together]]
        for reading in (one for part in judge.read(portion) for one in part):
            if not reading.preference_logit:
                continue
            row, winner = reading.comparison, "a" if reading.preference_logit > 0 else "b"
            of_a, of_b = (row.criteria, ()) if winner == "a" else ((), row.criteria)
            identifier = f"{row.preference_id}/{row.direction}"
            yield replace(own[row.preference_id], id=identifier, winner=winner, criteria_a=of_a, criteria_b=of_b)


def report(
    results: Mapping[str, Sequence[Result]], ranked: Mapping[str, pd.DataFrame], given: argparse.Namespace
) -> None:
    """Rows that were run before stay in ``results.json``, as long as steps, seed and overrides are the same."""
    folder, settings = given.report or given.out, {"steps": given.steps, "seeds": [given.seed]}
    settings |= {"overrides": given.overrides} if given.overrides else {}
    path = folder / "results.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    rows_of = {name: row for name, row in known.items() if isinstance(row, dict)}
    found = rows_of if {name: row for name, row in known.items() if name not in rows_of} == settings else {}
    for name, rows in results.items():
        found[name] = {"commit": commits([given.out / name]), **{base: accuracy(rows, base) for base in BASES}}
        found[name]["n"] = next(row.n for row in rows if row.suite == "D+" and row.metric == "accuracy")
        for column in ("truth", "opposite"):
            found[name][f"boards_{column}"] = round(float(ranked[name][column].mean()), 4)
        found[name]["boards_truth_least"] = round(float(ranked[name]["truth"].min()), 4)
        found[name] |= {row.suite: round(row.value, 4) for row in rows if row.metric == "accuracy"}
    replace_file(path, json.dumps(found | settings, indent=1) + "\n")
    table = [{"row": name, **row} for name, row in found.items()]
    line = " ".join((f"{given.steps} steps of 32, seed {given.seed}", *given.overrides))
    write_table(folder, "heads", pd.DataFrame(table), line)


def accuracy(rows: Sequence[Result], base: str) -> float:
    """Mean of both directions."""
    return round(
        mean(row.value for row in rows if row.metric == "accuracy" and row.suite in (f"{base}+", f"{base}-")), 4
    )


if __name__ == "__main__":
    sys.exit(main())
