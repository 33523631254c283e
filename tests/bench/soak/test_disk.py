"""Full places: what saves soundly keeps the good file; what writes over it, or says nothing, is found out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.soak import disk

pytestmark = pytest.mark.slow


def test_the_good_file_stays(task: Callable, tried: Callable[..., None]) -> None:
    found = disk.run(task(60, of=0.1))
    assert found.held, found.as_row()
    tried(faults=found.tried["full places"])


def only(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(disk, "PLACES", {name: disk.PLACES[name]})


def test_a_file_that_is_written_over_is_found(task: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def in_place(path: Path) -> Iterator[Path]:
        yield path

    only(monkeypatch, "file")
    monkeypatch.setattr("crm.io.files.drafted", in_place)
    assert disk.run(task(60)).failures["another version"]


def test_a_save_that_says_nothing_is_found(task: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = disk.SafeCheckpointIO.save_checkpoint

    def silent(*given: Any) -> None:
        try:
            plain(*given)
        except ValueError:
            return

    only(monkeypatch, "checkpoint")
    monkeypatch.setattr(disk.SafeCheckpointIO, "save_checkpoint", silent)
    assert disk.run(task(60)).failures == {"not told": 1}
