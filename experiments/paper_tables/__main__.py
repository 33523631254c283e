"""The paper's five tables at a scale, with intervals over seeds, and which claims hold; trained where missing.

``python -m experiments.paper_tables scale=demo`` (`make reproduce-tables`). A run whose model, configuration and
predictions are there is only read: after a kill the same command trains what is missing.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.models import QWEN3
from crm.cli.words import rewrite_all
from crm.config import compose
from crm.data.load import load_data
from crm.leaderboard.bank.opening import open_bank
from crm.model.folders import check_reachable
from crm.report.tables import markdown_text
from experiments.command import answered, parsed
from experiments.cost import from_votes, rate_line, table
from experiments.jobs import JobResult, places, run_jobs
from experiments.paper_tables import paper
from experiments.paper_tables.plan import Plan, commands, make_plan
from experiments.paper_tables.report import write_all, write_tables
from experiments.paper_tables.scales import SCALES, Scale
from experiments.paper_tables.tables import make_grids


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: ``scale=demo``, ``real`` or ``paper``, overrides of ``train.py``, ``--tables``, ``--seeds``."""
    parser = argparse.ArgumentParser(prog="python -m experiments.paper_tables", description=__doc__.splitlines()[0])
    parser.add_argument("overrides", nargs="*", help="scale=demo|real|paper and overrides of train.py for every run")
    parser.add_argument("--out", type=Path, default=Path("results/tables"))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="runs at a time")
    parser.add_argument("--seeds", type=int, nargs="+", help="of training; the scale's own where not given")
    parser.add_argument("--tables", type=int, nargs="+", choices=range(1, 6), default=range(1, 6), help="only these")
    parser.add_argument("--dry-run", action="store_true", help="only list the runs, and how long they take")
    options = parsed(parser, arguments)
    return answered("paper_tables", lambda: run(options))


def run(options: argparse.Namespace) -> None:
    """Check everything, then train and write; or list what there is to do."""
    chosen = [word.removeprefix("scale=") for word in options.overrides if word.startswith("scale=")] or ["demo"]
    extra = tuple(word for word in options.overrides if not word.startswith("scale="))
    extra = tuple(rewrite_all(extra, "train", "experiments.paper_tables"))
    out, name = options.out / chosen[-1], " ".join((chosen[-1], *extra))
    scale = replace(_scale(chosen[-1]), tables=tuple(options.tables))
    seeds = tuple(dict.fromkeys(options.seeds or scale.seeds))
    plan = make_plan(scale, extra, out, seeds)
    if options.dry_run:
        print("\n".join(dry_run(scale, plan, options.workers)))
        return
    check_data(scale, extra)
    finished = run_plan(scale, plan, options.workers, out, name, seeds)
    write_all(out, name, scale, plan, make_grids(scale, plan, finished), seeds)


def _scale(name: str) -> Scale:
    if name not in SCALES:
        raise ValueError(f"scale={name}: expected one of {', '.join(SCALES)}")
    return SCALES[name]


def check_data(scale: Scale, extra: Sequence[str]) -> None:
    """Raise ``ValueError`` where data, bank or backbone of the scale have not been made, or data cannot be read."""
    if not scale.first:
        return
    config = compose("train", (*scale.common, *scale.data.words, *extra), Path("run"))
    try:
        places(config.data)
        if 5 in scale.tables:
            open_bank(compose("leaderboard", ["checkpoint=none", *scale.ranking], Path("run")).bank)
    except ValueError as error:
        raise ValueError(f"{error}; run first: {'; '.join(scale.first)}") from None
    if config.model.path:
        check_reachable(config.model.path, config.model.revision)
    load_data(config.data)


def dry_run(scale: Scale, plan: Plan, workers: int) -> list[str]:
    """What must be there first, every command, and how long they take together.

    Where nobody has measured it, hours and disk of every training are estimated for as many votes as the paper has.
    """
    trained = [job for job in plan.jobs if job.overrides is not None]
    lines = [*(f"first: {line}" for line in scale.first), *(line for job in plan.jobs for line in commands(job))]
    if scale.minutes:
        minutes = scale.minutes * len(trained) / workers
        return [*lines, f"{len(trained)} trainings: about {minutes:.0f} minutes, {workers} at a time"]
    costs = [from_votes(compose("train", job.overrides or (), job.folder), paper.VOTES) for job in trained]
    estimated = table([[job.name] for job in trained], costs)
    rates = [rate_line(size) for size in QWEN3]
    return [*lines, "", markdown_text(estimated, f"{paper.VOTES:,} votes (arXiv 2508.09463), at most"), *rates]


def run_plan(
    scale: Scale, plan: Plan, workers: int, out: Path, name: str, seeds: Sequence[int]
) -> dict[str, JobResult]:
    """The results of every job by its name; each table is written once all its runs have ended."""
    finished: dict[str, JobResult] = {}
    written: set[str] = set()

    def ended(results: dict[str, JobResult]) -> None:
        grids = make_grids(scale, plan, finished | results, written)
        written.update(write_tables(out, name, plan, grids, seeds))

    for stage in plan.stages():
        finished |= run_jobs(stage, workers, ended)
    return finished


if __name__ == "__main__":
    sys.exit(main())
