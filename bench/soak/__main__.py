"""``python -m bench.soak``: everything at once for an hour. Out: ``soak.json``, ``soak.md`` and ``soak.png``.

Stages run one after the other; the one that mostly waits runs beside those that keep one processor busy, so that two
are busy at most. What a stage found is written when it ends: a soak that is stopped keeps it. Exit code 1 where a limit
is broken, 130 where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import FrameType
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench.index import IMAGES
from bench.machine import versions
from bench.run import RESULTS
from bench.soak import disk, endpoint, evaluations, page, rewards, rows, trainings
from bench.soak.children import last_line, started
from bench.soak.models import trained
from bench.soak.plots import draw
from bench.soak.report import to_markdown
from bench.soak.stage import Found, Task
from crm.io.files import replace_file
from crm.io.installed import commit
from crm.model.backbone import show_loading

WHOLE_MIN = 75.0
"""Minutes for which the numbers of the stages are meant."""
BESIDE = "endpoint"


@dataclass(frozen=True)
class Stage:
    """``minutes`` of `WHOLE_MIN` at most; ``reads`` a checkpoint, or needs none; ``loads`` two processors."""

    run: Callable[..., Found]
    minutes: float
    reads: bool = False
    loads: bool = False


STAGES = {
    "page": Stage(page.run, 30, reads=True, loads=True),
    "rewards": Stage(rewards.run, 8, reads=True, loads=True),
    "trainings": Stage(trainings.run, 20),
    "evaluations": Stage(evaluations.run, 8, reads=True),
    "rows": Stage(rows.run, 6),
    "disk": Stage(disk.run, 2),
    BESIDE: Stage(endpoint.run, 20),
}


def main(words: Sequence[str] | None = None) -> int:
    """Run the stages that were asked for, in the order of `STAGES`."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minutes", type=float, default=WHOLE_MIN, help="for all stages; numbers follow it")
    parser.add_argument("--only", nargs="+", choices=list(STAGES), default=list(STAGES), metavar="STAGE")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--images", type=Path, default=IMAGES)
    given = parser.parse_args(words)
    if not given.minutes > 0:
        parser.error(f"--minutes {given.minutes:g}: expected a number above 0")
    show_loading(False)
    logging.getLogger("crm").setLevel(logging.ERROR)
    soak = Soak(given)
    try:
        with _stopped_by(signal.SIGTERM, signal.SIGINT), tempfile.TemporaryDirectory(prefix="soak-") as folder:
            soak.run(Path(folder))
    except KeyboardInterrupt:
        ended = ", ".join(soak.found["stages"])
        kept = (
            f"{ended} ended before that: {given.out / 'soak.json'}" if ended else "no stage had ended, nothing is kept"
        )
        print(f"bench.soak: stopped; {kept}", file=sys.stderr)
        return 130
    print(to_markdown(soak.found))
    return 0 if all(row["held"] for row in soak.found["stages"].values()) else 1


class Soak:
    """One soak with its progress bar; ``found`` is what is written."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.started = given, time.monotonic()
        self.chosen = [name for name in STAGES if name in given.only]
        self.found: dict[str, Any] = {"stages": {}, "chosen": self.chosen, "minutes": given.minutes, "seed": given.seed}
        self.found |= {"commit": commit(), "versions": versions(), "cores": os.cpu_count()}
        columns = (TextColumn("{task.description:>12}"), BarColumn(), TextColumn("{task.fields[tried]}"))
        # Redrawn when a stage tells something: a thread of its own would not survive the forks.
        self.bar = Progress(*columns, TimeElapsedColumn(), auto_refresh=False)

    def run(self, folder: Path) -> None:
        """All stages, with files in ``folder`` while they run."""
        beside: BaseProcess | None = None
        with self.bar:
            checkpoint = trained(folder / "model") if any(STAGES[name].reads for name in self.chosen) else None
            try:
                for name in self.chosen if self.chosen == [BESIDE] else [one for one in self.chosen if one != BESIDE]:
                    if beside is None and BESIDE in self.chosen and name != BESIDE and not STAGES[name].loads:
                        beside = self._start_beside(folder)
                    self._keep(name, *outcome(name, self._task(name, folder), checkpoint))
                if BESIDE in self.chosen and BESIDE not in self.found["stages"]:
                    self._finish_beside(beside or self._start_beside(folder), folder)
            finally:
                if beside is not None:
                    beside.kill()

    def _task(self, name: str, folder: Path) -> Task:
        own = folder / name
        own.mkdir()
        line = self.bar.add_task(name, total=1.0, tried="")
        scale = self.given.minutes / WHOLE_MIN
        return Task(STAGES[name].minutes * 60 * scale, scale, self.given.seed, own, partial(self._tell, line))

    def _tell(self, line: Any, share: float, tried: str) -> None:
        self.bar.update(line, completed=min(1.0, share), tried=tried)
        self.bar.refresh()

    def _start_beside(self, folder: Path) -> BaseProcess:
        task = self._task(BESIDE, folder)
        task.tell(0.0, "beside the others")
        return started(folder / "beside.log", _beside, task, folder / "beside.json")

    def _finish_beside(self, process: BaseProcess, folder: Path) -> None:
        while process.is_alive():
            process.join(1.0)
            self.bar.refresh()
        if process.exitcode == 0:
            row = json.loads((folder / "beside.json").read_text("utf-8"))
            self._keep(BESIDE, row, row["seconds"])
        else:
            broken = Found()
            broken.fail("ended", f"exit code {process.exitcode}: {last_line(folder / 'beside.log')}")
            self._keep(BESIDE, broken.as_row(), time.monotonic() - self.started)

    def _keep(self, name: str, row: dict[str, Any], seconds: float) -> None:
        """Write all that is known by now."""
        self.found["stages"][name] = {"seconds": round(seconds, 1), **row}
        self.found["seconds"] = round(time.monotonic() - self.started, 1)
        point = re.compile(r"\[\s+([-\d.]+),\s+([-\d.]+),\s+(\d+)\s+\]")  # one line each instead of five
        text = point.sub(r"[\1, \2, \3]", json.dumps(self.found, indent=1))
        replace_file(self.given.out / "soak.json", text + "\n")
        replace_file(self.given.out / "soak.md", to_markdown(self.found))
        draw(self.given.images / "soak.png", self.found["stages"])


def outcome(name: str, task: Task, checkpoint: Path | None) -> tuple[dict[str, Any], float]:
    """What a stage found, and its seconds. One that breaks has failed, and the others go on."""
    try:
        found = STAGES[name].run(task, checkpoint) if STAGES[name].reads else STAGES[name].run(task)
    except Exception as error:  # whatever it is, it belongs in the record
        found = Found()
        found.fail("broke off", f"{type(error).__name__}: {error}")
    task.tell(1.0, "held" if found.held else "BROKEN")
    return found.as_row(), task.passed


def _beside(task: Task, file: Path) -> None:
    """In a process of its own, whose progress nobody sees."""
    quiet = Task(task.seconds, task.scale, task.seed, task.folder)
    row, seconds = outcome(BESIDE, quiet, None)
    replace_file(file, json.dumps({"seconds": seconds, **row}))


@contextmanager
def _stopped_by(*numbers: signal.Signals) -> Iterator[None]:
    """Signals that end as Ctrl-C does, also where a shell has started this in the background."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
