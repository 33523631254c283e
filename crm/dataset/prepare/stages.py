"""Stages of a preparation. In: what each reads, with which settings, and its function. Out: files that are made once.

A stage is pure: its files depend on its settings, on the bytes it reads and on the code, and these three are its
fingerprint. A stage whose fingerprint and files are unchanged is not run again, unless rows of it failed (counts that
begin with ``failed``); a stage that breaks off leaves no record.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from crm.io.files import replace_file
from crm.sealed import read_sealed, sealed_text

log = logging.getLogger(__name__)
FORMAT = 2
"""Of a record."""
PACKAGES = ("criteria", "dataset", "io", "leaderboard", "report", "votes")
"""Parts of `crm` whose code decides what a stage writes, beside `crm.schema`; templates are code too."""


@dataclass(frozen=True)
class Stage:
    """``run`` writes ``outputs`` from ``inputs`` and returns its counts, those of rows in and out among them."""

    name: str
    settings: Mapping[str, Any]
    inputs: Sequence[Path]
    outputs: Sequence[Path]
    run: Callable[[], dict[str, int]]


@dataclass(frozen=True)
class Record:
    """What is kept of a stage that ran: its fingerprint, its counts, the digests of its files, and how long it took."""

    name: str
    fingerprint: str
    counts: dict[str, int]
    outputs: dict[str, str]
    seconds: float
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def failed(self) -> int:
        """Requests that failed, each of a row or a topic that is now without a finding."""
        return sum(count for name, count in self.counts.items() if name.startswith("failed"))


def run_stage(stage: Stage, folder: Path) -> tuple[Record, bool]:
    """Run a stage unless its files are fresh; its record, and whether it ran. ``folder`` keeps the records."""
    mark = _fingerprint(stage)
    path = folder / f"{stage.name}.json"
    old = read_record(path)
    if old and not old.failed and _is_current(old, mark, stage, folder):
        log.info("%s: as it was (%s)", stage.name, listed(old.counts))
        return old, False
    path.unlink(missing_ok=True)
    start = time.perf_counter()
    counts = stage.run()
    seconds = round(time.perf_counter() - start, 2)
    record = Record(
        stage.name, mark, counts, _digests(stage.outputs, folder.parent), seconds, json.loads(_text(stage.settings))
    )
    replace_file(path, sealed_text({"format": FORMAT, **asdict(record)}))
    log.info("%s: %s (%.1f s)", stage.name, listed(counts), seconds)
    return record, True


def check_current(stage: Stage, folder: Path) -> None:
    """Raise ``ValueError`` for a stage that is to be taken as it is and is not what its settings and inputs make."""
    record = read_record(folder / f"{stage.name}.json")
    if record is None:
        raise ValueError(f"stages: {stage.name} has not been run, and what comes behind it needs it; run it too")
    if not _is_current(record, _fingerprint(stage), stage, folder):
        raise ValueError(f"stages: {stage.name} was made of other data, settings or code; run it too")


def _is_current(record: Record, mark: str, stage: Stage, folder: Path) -> bool:
    return record.fingerprint == mark and record.outputs == _digests(stage.outputs, folder.parent)


def read_record(path: Path) -> Record | None:
    """The record of a stage, or ``None`` where it has not run, or its file was damaged: then it is run again."""
    try:
        return Record(**read_sealed(path, "the stage is run again", version=FORMAT))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        log.warning("%s", error)
        return None


def listed(counts: Mapping[str, int]) -> str:
    """Counts in one line for people."""
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items())


def file_digest(path: Path) -> str:
    """SHA-256 of a file; of a folder, over the names and digests of its files."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        text = "".join(f"{file.relative_to(path)}\0{file_digest(file)}\n" for file in files)
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@cache
def code_digest() -> str:
    """Digest of the code of `PACKAGES`: what another version wrote is not taken for this one's.

    Versions of libraries are not in it: remove ``stages/<stage>.json`` to have a stage made again after an update.
    """
    root = Path(__file__).resolve().parents[2]
    code = [file for package in PACKAGES for file in (root / package).rglob("*") if file.suffix in (".py", ".j2")]
    files = sorted([root / "schema.py", *code])
    text = "".join(f"{file.relative_to(root).as_posix()}\0{file.read_text(encoding='utf-8')}\0" for file in files)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _fingerprint(stage: Stage) -> str:
    for path in stage.inputs:
        if not path.exists():
            raise ValueError(f"stages: {stage.name} reads {path}, which is not there; run the stage before it too")
    parts = [stage.name, code_digest(), _text(stage.settings), *(file_digest(path) for path in stage.inputs)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _digests(paths: Sequence[Path], folder: Path) -> dict[str, str]:
    """Digests of files, by their place in the folder; a missing one has none, so that its stage is not fresh."""
    return {path.relative_to(folder).as_posix(): file_digest(path) for path in paths if path.exists()}


def _text(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True, ensure_ascii=True)
