"""``python -m bench.prepare``: seconds and peak memory of preparing simulated votes."""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from crm.config import compose
from crm.data.simulation.arena import simulate
from crm.prepare.run import run_prepare
from crm.schema import Preference, to_json

AT_ONCE = 34_000
"""Preferences that one simulation has different queries for."""


def main(words: Sequence[str] | None = None) -> int:
    """Write the votes, prepare them, print one line."""
    parser = argparse.ArgumentParser(prog="python -m bench.prepare", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    rows = parser.parse_args(words).rows
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "votes.jsonl")
        with path.open("w", encoding="utf-8") as out:
            out.writelines(to_json(row) + "\n" for row in islice(votes(rows), rows))
        start = time.perf_counter()
        given = ["data=records", f"data.path='{path}'", f"out='{folder}/data'", "data.root=none", "progress=false"]
        run_prepare(compose("prepare", given))
        unit = 1e6 if sys.platform == "darwin" else 1e3
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
        print(f"{rows:,} votes: {time.perf_counter() - start:.1f} s, peak {peak:,.0f} MB")
    return 0


def votes(rows: int) -> Iterator[Preference]:
    """Simulated preferences without topics; from the second simulation on, some prompts have occurred before."""
    for seed in range(1, 2 + rows // AT_ONCE):
        for row in simulate(seed=seed, train=AT_ONCE, validation=0, suite=0).train:
            yield replace(row, topic=None, criteria_topics_a=(), criteria_topics_b=())


if __name__ == "__main__":
    sys.exit(main())
