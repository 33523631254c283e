"""What a sweep leaves when its jobs are through. In: its folder. Out: tables, and who failed, on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from crm.cli.help import script
from crm.training.sweeps import SweepFolder, failed_jobs


def end_of_sweep(name: str) -> int:
    """Write the tables of a sweep of trainings or evaluations, name the jobs that failed; the exit code."""
    folder = SweepFolder.current
    if folder is None or not folder.is_dir():
        return 0
    failed = failed_jobs(folder)
    if name == "train" and any(folder.rglob(".hydra")):
        from crm.training.sweep_table import write_sweep_tables

        failed = [job.name for job in write_sweep_tables(folder) if job.status != "finished"]
        _show(folder, ("sweep.md", "seeds.md"))
        print(f"crm-{name}: the table of this sweep is {folder / 'sweep.md'}")
    if name == "evaluate" and any(folder.rglob(".hydra")):
        from crm.evaluation.judge_table import write_tables_of_judges

        failed = [job.name for job in write_tables_of_judges(folder) if job.status != "finished"]
        _show(folder, ("judges.md", "paired.md"))
        print(f"crm-{name}: the tables of this sweep are {folder / 'judges.md'} and paired.md beside it")
    if failed:
        print(f"{script(name)}: {len(failed)} jobs of this sweep failed: {', '.join(failed)}", file=sys.stderr)
    return 2 if failed else 0


def _show(folder: Path, tables: Iterable[str]) -> None:
    """Print those of a sweep's tables that were written, as they stand in their files."""
    for table in tables:
        if (folder / table).is_file():
            print(f"\n{(folder / table).read_text(encoding='utf-8')}")
