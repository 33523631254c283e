"""What the tests of the soak share: one tiny model, tasks of a second or two, kills at the moment that matters."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.soak.children import started
from bench.soak.models import trained
from bench.soak.stage import Task


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("soak model"))


@pytest.fixture
def task(tmp_path: Path) -> Callable[..., Task]:
    """``task(seconds, of=0.02)``: a stage at a fiftieth of its numbers, in a folder of its own."""
    folder = tmp_path / "stage"
    folder.mkdir()
    return lambda seconds, of=0.02: Task(seconds, of, 1, folder)


@pytest.fixture
def kill_once(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``kill_once(module, is_there)``: children of a stage that are to be killed die as soon as that is so."""

    def arrange(module: Any, is_there: Callable[[Path], bool]) -> None:
        plain = module.killed_after

        def killed_after(seconds: float | None, log: Path, target: Any, *arguments: Any) -> bool:
            if seconds is None:
                return bool(plain(None, log, target, *arguments))
            process = started(log, target, *arguments)
            folder = next(given for given in arguments if isinstance(given, Path))
            while process.is_alive() and not is_there(folder):
                time.sleep(0.002)
            process.kill()
            process.join()
            return process.exitcode != 0

        monkeypatch.setattr(module, "killed_after", killed_after)

    return arrange
