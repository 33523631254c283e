"""``python -m bench.reliability``: run every block, count what was tried, write one table.

With ``--red`` a fault is put into the package for every block, and its tests have to find it. Exit code 1 where a
block fails or tried too little, or where a fault is not found.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd
from rich.progress import track

from bench.machine import versions
from bench.reliability.blocks import BLOCKS, Block
from bench.reliability.counting import OUT
from bench.reliability.red import red
from crm.io.files import replace_file
from crm.io.installed import commit
from crm.report.tables import markdown_text
from crm.report.terminal import print_table

ROOT = Path(__file__).parents[2]
INPUTS, FAULTS = 14_000, 400
"""What all blocks together have to try."""
WORKERS, LIMIT_S = "2", 1800


@dataclass(frozen=True)
class Outcome:
    """What a block came to. ``ended`` is False where its tests did not run to their end in `LIMIT_S` seconds."""

    tests: int
    inputs: int
    faults: int
    failed: int
    skipped: int
    seconds: float
    ended: bool
    names: tuple[str, ...] = ()


def main(words: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.reliability", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--red", action="store_true", help="each block on a fault of its own, which it has to find")
    parser.add_argument("--blocks", default="", help="letters of blocks, such as BD; all where it is not given")
    parser.add_argument("--out", type=Path, default=Path("docs/reliability.md"))
    given = parser.parse_args(words)
    if given.red:
        return red()
    chosen = [block for block in BLOCKS if not given.blocks or block.letter in given.blocks]
    if not chosen:
        print(f"--blocks={given.blocks}: expected some of {''.join(block.letter for block in BLOCKS)}", file=sys.stderr)
        return 2
    outcomes = {block.letter: run(block.tests) for block in track(chosen, "blocks")}
    table = frame(chosen, outcomes)
    print_table(table, "What was tried")
    failures = list(broken(chosen, outcomes, whole=not given.blocks))
    for line in failures:
        print(line, file=sys.stderr)
    if not given.blocks:
        replace_file(given.out, page(table))
    return 1 if failures else 0


def run(tests: Sequence[str]) -> Outcome:
    """The tests in a process of their own, two at a time."""
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "counts.json"
        environment = os.environ | {OUT: str(counts), "OMP_NUM_THREADS": "1"}
        words = ["-p", "bench.reliability.counting", "-n", WORKERS, "--dist", "loadfile"]
        started = time.perf_counter()
        command = [sys.executable, "-m", "pytest", *words, *tests]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(  # noqa: S603 - our own tests
                command, cwd=ROOT, env=environment, stdout=sys.stderr, timeout=LIMIT_S, check=False
            )
        seconds = time.perf_counter() - started
        if not counts.is_file():
            return Outcome(0, 0, 0, 0, 0, seconds, ended=False)
        found = json.loads(counts.read_text(encoding="utf-8"))
    names = tuple(found.pop("names"))
    return Outcome(**found, seconds=seconds, ended=True, names=names)


def broken(chosen: Sequence[Block], outcomes: Mapping[str, Outcome], *, whole: bool) -> Sequence[str]:
    """A line for everything that is not as promised; with ``whole`` the sums count too."""
    lines = []
    for block in chosen:
        found = outcomes[block.letter]
        if not found.ended:
            lines.append(f"block {block.letter}: did not end within {LIMIT_S} seconds")
        lines += [f"block {block.letter}: failed {name}" for name in found.names]
        for kind, tried, least in (("inputs", found.inputs, block.inputs), ("faults", found.faults, block.faults)):
            if tried < least:
                lines.append(f"block {block.letter}: tried {tried} {kind}, expected {least} or more")
    if whole:
        for kind, least in (("inputs", INPUTS), ("faults", FAULTS)):
            tried = sum(getattr(found, kind) for found in outcomes.values())
            if tried < least:
                lines.append(f"all blocks: tried {tried} {kind}, expected {least} or more")
    return lines


def frame(chosen: Sequence[Block], outcomes: Mapping[str, Outcome]) -> pd.DataFrame:
    """A row a block, and their sums."""
    rows = []
    for block in chosen:
        found = outcomes[block.letter]
        rows.append(_row(f"{block.letter}: {block.what}", asdict(found), found.seconds))
    sums = {name: sum(getattr(found, name) for found in outcomes.values()) for name in _COUNTED}
    rows.append(_row("all", sums, sum(found.seconds for found in outcomes.values())))
    return pd.DataFrame(rows)


_COUNTED = ("tests", "inputs", "faults", "failed", "skipped")


def _row(what: str, counts: Mapping[str, object], seconds: float) -> dict[str, object]:
    return {"block": what} | {name: counts[name] for name in _COUNTED} | {"limit": 0, "seconds": round(seconds)}


def page(table: pd.DataFrame) -> str:
    """``docs/reliability.md``."""
    shown = table.rename(columns={"inputs": "inputs tried", "faults": "faults tried", "failed": "failures"})
    machine = versions()
    cpu, python = machine["cpu"], machine["python"]
    text = (Path(__file__).with_name("page.md")).read_text(encoding="utf-8")
    return text.replace(
        "{table}", markdown_text(shown, f"commit {commit()}; {cpu}, two processes, Python {python}").strip()
    )


if __name__ == "__main__":
    sys.exit(main())
