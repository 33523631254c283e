"""The paper's five tables, with intervals over seeds; models that are missing are trained.

``python -m experiments.paper_tables scale=demo`` (`make reproduce-tables`). A run whose model, configuration and
predictions are there is only read: after a kill the same command trains what is missing.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from crm.io.files import replace_file
from crm.io.installed import commit
from crm.report.tables import caption, csv_text, markdown_text, print_table, write_table
from experiments.jobs import JobResult, run_jobs
from experiments.paper_tables import paper
from experiments.paper_tables.cells import INTERVALS, Grid
from experiments.paper_tables.plan import Plan, commands, make_plan
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
    parser.add_argument("--dry-run", action="store_true", help="only list the runs")
    options = parser.parse_args(arguments)
    chosen = [word.removeprefix("scale=") for word in options.overrides if word.startswith("scale=")] or ["demo"]
    extra = tuple(word for word in options.overrides if not word.startswith("scale="))
    out = options.out / chosen[-1]
    try:
        scale = replace(_scale(chosen[-1]), tables=tuple(options.tables))
        seeds = tuple(dict.fromkeys(options.seeds or scale.seeds))
        plan = make_plan(scale, extra, out, seeds)
        if options.dry_run:
            print("\n".join([*(f"first: {line}" for line in scale.first), *map("\n".join, map(commands, plan.jobs))]))
            return 0
        grids = make_grids(scale, plan, run_plan(plan, options.workers))
    except ValueError as error:
        print(f"experiments.paper_tables: {error}", file=sys.stderr)
        return 2
    write_grids(out, chosen[-1], scale, grids, seeds)
    return 0


def _scale(name: str) -> Scale:
    if name not in SCALES:
        raise ValueError(f"scale={name}: expected one of {', '.join(SCALES)}")
    return SCALES[name]


def run_plan(plan: Plan, workers: int) -> dict[str, JobResult]:
    """The results of every job by its name."""
    finished: dict[str, JobResult] = {}
    for stage in plan.stages():
        finished |= run_jobs(stage, workers)
    return finished


def write_grids(out: Path, name: str, scale: Scale, grids: Mapping[str, Grid], seeds: Sequence[int]) -> None:
    """Every table in its own files, all of them with their notes in ``tables.md``, and in the terminal."""
    sections = [f"# The paper's five tables, scale={name}", INTERVALS]
    made_at = commit()
    for key, grid in grids.items():
        title, frame = paper.TITLES[key], grid.frame()
        line = f"{title}: {grid.measure}; " + caption(None, seeds, f"scale={name}", made_at)
        notes = paper.notes(key, scale.ours, scale.joint_after_scalar)
        write_table(out, key, frame, line)
        # The table's own CSV would repeat the text of the cells; numbers by seed are of more use there.
        replace_file(out / f"{key}.csv", csv_text(grid.long(), line))
        sections += [f"## {title}", markdown_text(frame, line).rstrip(), *notes]
        print_table(frame, f"{line} ({out / key}.md)")
        print("\n".join(notes) + "\n")
    replace_file(out / "tables.md", "\n\n".join(sections) + "\n")
    print(f"{INTERVALS}\nAll of them: {out / 'tables.md'}")


if __name__ == "__main__":
    sys.exit(main())
