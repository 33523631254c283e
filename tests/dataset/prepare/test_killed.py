"""A preparation that is killed and started again leaves the files of one that was never stopped."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import crm.io.files

pytestmark = pytest.mark.slow
FILES = (1, 3, 6, 9, 14, 20, 27)
"""Before which file it is moved into place a run is killed; what is there already is not written again."""


def contents(folder: Path) -> dict[str, bytes]:
    """All but the drafts that a kill leaves, whose names are hidden."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_killed_at_seven_files_it_ends_in_the_same_dataset(
    prepare: Any, votes_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long a stage took stands in its files; here no time passes."""
    monkeypatch.setattr("crm.dataset.prepare.stages.time", SimpleNamespace(perf_counter=lambda: 0.0))
    words = ("data=records", f"data.path='{votes_file}'")
    whole = prepare(*words, out="whole/data")

    def dying(number: int) -> None:
        written, flush = iter(range(number - 1)), os.fsync

        def flush_or_die(file: int) -> None:
            if next(written, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            flush(file)

        crm.io.files.os.fsync = flush_or_die
        prepare(*words, out="killed/data")

    kills = 0
    for number in FILES:
        process = multiprocessing.get_context("fork").Process(target=dying, args=(number,))
        process.start()
        process.join(120)
        kills += process.exitcode == -signal.SIGKILL
        assert process.exitcode in (-signal.SIGKILL, 0), "it had less to write than that"
    assert kills >= 5
    assert contents(prepare(*words, out="killed/data")) == contents(whole)
