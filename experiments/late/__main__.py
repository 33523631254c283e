"""``python -m experiments.late``: heads at equal compute on the simulated arena. Out: ``results.json`` and a table.

A late head that keeps 1, 4, 16 or 64 states of a response, and the heads that read criteria and response together, each
trained from scratch for the same number of comparisons on the same data, without a warm-up.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

import pandas as pd

from crm.io.files import replace_file
from crm.io.installed import commit
from crm.report.tables import write_table
from crm.schema import Result
from experiments.jobs import Job, run_jobs

KEPT = (1, 4, 16, 64)
OTHERS = ("scalar", "pairwise", "pairwise_span")
LOSS = {"pairwise": "cls", "pairwise_span": "cls"}
BASES = ("D", "T", "C")
"""Unseen prompts, unseen topics, unseen criteria."""


def main(words: Sequence[str] | None = None) -> int:
    """Command line: which rows, how many steps, and overrides of ``train.py`` for all of them."""
    parser = argparse.ArgumentParser(prog="python -m experiments.late", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("results/late"))
    parser.add_argument("--report", type=Path, default=Path("experiments/late"), help="where the tables go")
    parser.add_argument("--rows", nargs="+", default=[*(f"kept_{kept}" for kept in KEPT), *OTHERS])
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("overrides", nargs="*")
    given = parser.parse_args(words)
    try:
        jobs = [job(row, given) for row in given.rows]
        finished = run_jobs(jobs, min(len(jobs), os.cpu_count() or 1))
    except ValueError as error:
        print(f"experiments.late: {error}", file=sys.stderr)
        return 2
    report({name: made.results["suites"] for name, made in finished.items()}, given)
    return 0


def job(row: str, given: argparse.Namespace) -> Job:
    """One row of the table. Raises ``ValueError`` for a row that is neither a head nor ``kept_<states>``."""
    kept = row.removeprefix("kept_")
    if row not in OTHERS and not (row.startswith("kept_") and kept.isdigit()):
        raise ValueError(f"--rows: {row!r}: expected kept_<states> or one of {', '.join(OTHERS)}")
    head = (f"head={row}",) if row in OTHERS else ("head=late", f"head.kept={kept}")
    words = (
        *head,
        f"loss={LOSS.get(row, 'ranking')}",
        "direction=both",
        "trainer.batch_size=32",
        f"trainer.max_steps={given.steps}",
        f"trainer.epochs={1 + given.steps // 1000}",
        "trainer.validate_every=500",
        f"seed={given.seed}",
        *given.overrides,
    )
    data = tuple(word for word in given.overrides if word.startswith("data."))
    return Job(row, given.out / row, words, {"suites": data})


def report(results: Mapping[str, Sequence[Result]], given: argparse.Namespace) -> None:
    """Rows that were run before stay in ``results.json``, as long as steps and seed are the same."""
    path = given.report / "results.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    found = known if (known.get("steps"), known.get("seeds")) == (given.steps, [given.seed]) else {}
    for name, rows in results.items():
        found[name] = {"commit": commit(), **{base: accuracy(rows, base) for base in BASES}}
        found[name]["n"] = next(row.n for row in rows if row.suite == "D+" and row.metric == "accuracy")
        found[name] |= {row.suite: round(row.value, 4) for row in rows if row.metric == "accuracy"}
    found |= {"steps": given.steps, "seeds": [given.seed]}
    replace_file(path, json.dumps(found, indent=1) + "\n")
    table = [{"row": name, **row} for name, row in found.items() if isinstance(row, dict)]
    write_table(given.report, "heads", pd.DataFrame(table), f"{given.steps} steps of 32, seed {given.seed}")


def accuracy(rows: Sequence[Result], base: str) -> float:
    """Mean of both directions."""
    return round(
        mean(row.value for row in rows if row.metric == "accuracy" and row.suite in (f"{base}+", f"{base}-")), 4
    )


if __name__ == "__main__":
    sys.exit(main())
