"""Saving into a full place. In: a `Task`. Out: whether the good file of before stayed, and saving works again.

A child may write no file beyond a size that is drawn (RLIMIT_FSIZE), as on a disk that fills up meanwhile, and saves a
second version over a first one. It has to say so and leave the first one whole.
"""

from __future__ import annotations

import logging
import resource
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import torch

from bench.soak.children import exit_code, last_line
from bench.soak.stage import Found, Limit, Task
from crm.evaluation.prediction_file import finished, predict
from crm.io.draws import generator
from crm.io.files import replace_file
from crm.judges.controls import LengthJudge
from crm.page.score_store import ScoreStore
from crm.schema import Comparison, Message
from crm.training.checkpointing import SafeCheckpointIO

LOOPS = 20
SIZE = 300_000
"""Bytes of a second version, or more."""
TOLD = 3
"""Exit code of a child that could not save and said so."""


@dataclass(frozen=True)
class Place:
    """Something that is saved: how, and which version is whole in a folder."""

    save: Callable[[Path, int], None]
    version: Callable[[Path], int]


def run(task: Task) -> Found:
    """`LOOPS` rounds over all `PLACES`, each in a folder of its own."""
    found, draws, wanted = Found(), generator(task.seed, 0, "disk", "soak"), task.count(LOOPS)
    for loop in range(wanted):
        for name, place in PLACES.items():
            if not task.over:
                _fill_up(found, task.folder / f"{loop} {name}", name, place, int(draws.uniform(0.05, 0.95) * SIZE))
        task.tell((loop + 1) / wanted, f"{found.tried['full places']} full places")
    found.limits = [Limit("full places", found.tried["full places"], at_least=wanted * len(PLACES))]
    return found


def _fill_up(found: Found, folder: Path, name: str, place: Place, room: int) -> None:
    folder.mkdir()
    place.save(folder, 1)
    before, log = {file.name for file in folder.iterdir()}, folder.with_suffix(".log")
    code = exit_code(log, _save_in, place, folder, room)
    found.tried["full places"] += 1
    told = f"{name}, room for {room} bytes"
    if code != TOLD:
        found.fail("not told", f"{told}: exit code {code}, {last_line(log)}")
    if left := sorted(half for half in {file.name for file in folder.iterdir()} - before if half.endswith(".tmp")):
        found.fail("half a file left", f"{told}: {left}")
    try:
        if (version := place.version(folder)) != 1:
            found.fail("another version", f"{told}: {version}")
        place.save(folder, 2)
        if (version := place.version(folder)) != 2:
            found.fail("not saved afterwards", f"{told}: {version}")
    except Exception as error:  # whatever it is, the good file is not there
        found.fail("good file lost", f"{told}: {type(error).__name__}: {error}")


def _save_in(place: Place, folder: Path, room: int) -> None:
    torch.set_num_threads(1)
    told = _Told(logging.WARNING)
    logging.getLogger("crm").setLevel(logging.WARNING)
    logging.getLogger("crm").addHandler(told)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    try:
        place.save(folder, 2)
    except (OSError, ValueError, sqlite3.Error):
        sys.exit(TOLD)
    sys.exit(TOLD if told.count else 0)


class _Told(logging.Handler):
    """Counts warnings: scores can be made again, so that a store which cannot keep them says so and goes on."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """One more."""
        self.count += 1


def _save_checkpoint(folder: Path, version: int) -> None:
    SafeCheckpointIO().save_checkpoint({"weights": torch.full((SIZE,), float(version))}, folder / "last.ckpt")


def _checkpoint_version(folder: Path) -> int:
    saved = SafeCheckpointIO().load_checkpoint(folder / "last.ckpt")["weights"]
    return int(saved.mean()) if saved.numel() == SIZE and saved.unique().numel() == 1 else 0


def _save_file(folder: Path, version: int) -> None:
    replace_file(folder / "report.html", str(version) * SIZE)


def _file_version(folder: Path) -> int:
    content = (folder / "report.html").read_text("utf-8")
    return int(content[0]) if content == content[0] * SIZE else 0


def _save_scores(folder: Path, version: int) -> None:
    with closing(ScoreStore(folder / "scores.sqlite")) as store:
        store.keep("judge", f"criteria {version}", [((name, "ab"), 0.5) for name in _names()])


def _scores_version(folder: Path) -> int:
    with closing(ScoreStore(folder / "scores.sqlite")) as store:
        known = [len(store.known("judge", f"criteria {version}", _names())) for version in (1, 2)]
    return {(SIZE // 50, 0): 1, (SIZE // 50, SIZE // 50): 2}.get((known[0], known[1]), 0)


def _names() -> list[str]:
    return [f"{number:032d}" for number in range(SIZE // 50)]


def _save_predictions(folder: Path, version: int) -> None:
    said = {"suite": "D", "digest": "soak", "path": folder / "predictions.jsonl"}
    predict(LengthJudge(), _comparisons()[: 200 * version**4], **said, progress=False)  # type: ignore[arg-type]


def _predictions_version(folder: Path) -> int:
    """Rows of a second version may be there: readings are kept as they come."""
    known = {name for name, _ in finished(folder / "predictions.jsonl", "soak")}
    whole = [all(row.id in known for row in _comparisons()[: 200 * version**4]) for version in (1, 2)]
    return sum(whole)


def _comparisons() -> list[Comparison]:
    a, b = ((Message("assistant", text),) for text in ("long one", "short"))
    return [
        Comparison(str(number), str(number), ("Likes tea",), (Message("user", "Why?"),), a, b, label="a")
        for number in range(3200)
    ]


PLACES = {
    "checkpoint": Place(_save_checkpoint, _checkpoint_version),
    "file": Place(_save_file, _file_version),
    "scores": Place(_save_scores, _scores_version),
    "predictions": Place(_save_predictions, _predictions_version),
}
