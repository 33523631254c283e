"""``python -m bench.prepare``: simulated votes through every stage. Out: seconds and peak memory, printed.

Topics and broad topics are taken out of the simulated votes first, so that they have to be found. Ingest is run in a
process of its own for a tenth of the rows and for all of them: its memory may not grow with the rows.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from crm.config import compose
from crm.dataset.prepare.run import run_prepare
from crm.schema import Preference, to_json
from crm.votes.simulation.arena import simulate

AT_ONCE = 34_000
"""Preferences that one simulation has different queries for."""


def main(words: Sequence[str] | None = None) -> int:
    """Write the votes, prepare them, print a line a measurement."""
    parser = argparse.ArgumentParser(prog="python -m bench.prepare", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="where to work; default: a temporary folder")
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        for rows in (given.rows // 10, given.rows):
            written = _write(folder / f"{rows}.jsonl", rows)
            seconds, megabytes = _measured(folder / f"{rows}.jsonl", folder / f"ingest-{rows}", "[ingest]")
            print(f"ingest of {rows:,} ({written / 1e6:,.0f} MB): {seconds:.1f} s, peak {megabytes:,.0f} MB")
        seconds, megabytes = _measured(folder / f"{given.rows}.jsonl", folder / "all", None)
        print(f"all stages of {given.rows:,}: {seconds:.1f} s, peak {megabytes:,.0f} MB")
    return 0


def votes(rows: int) -> Iterator[Preference]:
    """Simulated preferences without topics; from the second simulation on, some prompts have occurred before."""
    for seed in range(1, 2 + rows // AT_ONCE):
        for row in simulate(seed=seed, train=AT_ONCE, validation=0, suite=0).train:
            yield replace(row, topic=None, criteria_topics_a=(), criteria_topics_b=())


def _write(path: Path, rows: int) -> int:
    with path.open("w", encoding="utf-8") as out:
        return sum(out.write(to_json(row) + "\n") for row in islice(votes(rows), rows))


def _measured(votes_file: Path, out: Path, stages: str | None) -> tuple[float, float]:
    """Seconds and peak resident megabytes of a process that prepares the file."""
    words = ["data=records", f"data.path='{votes_file}'", f"out='{out}'", "data.root=none", "progress=false"]
    words += [f"stages={stages}"] if stages else []
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        found: tuple[float, float] = pool.apply(_prepare, (words,))
    return found


def _prepare(words: list[str]) -> tuple[float, float]:
    start = time.perf_counter()
    run_prepare(compose("prepare", words))
    unit = 1e6 if sys.platform == "darwin" else 1e3
    return time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


if __name__ == "__main__":
    sys.exit(main())
