"""Spoiled lines: sound readers hold, one that drops a count, a line, or raises is found out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from bench.soak import rows
from crm.io.intake import Intake

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "OF_A_FILE", 300)


def test_lines_in_are_kept_or_rejected(task: Callable, tried: Callable[..., None]) -> None:
    found = rows.run(task(60, of=0.002))
    assert found.held, found.as_row()
    assert found.tried["files"] >= len(rows.READERS) and found.tried["lines"] >= 2000
    tried(inputs=found.tried["lines"])


def test_a_dropped_count_is_found(task: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Intake, "_count", lambda *_: None)
    found = rows.run(task(60, of=0.002))
    assert found.failures["counts"] and not found.held


def test_a_lost_line_is_found(task: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = rows.json_lines
    monkeypatch.setattr(rows, "json_lines", lambda path: list(plain(path))[1:])
    assert rows.run(task(60, of=0.0005)).failures["lines lost"]


def test_an_exception_is_found(task: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(line: bytes) -> Any:
        return json.loads(line.decode())

    monkeypatch.setattr("crm.io.untrusted.decode", careless)
    found = rows.run(task(60, of=0.0005))
    assert found.failures["exception"] and "Error" in found.examples[0]


def test_the_same_seed_makes_the_same_lines() -> None:
    assert rows.lines(1, 3, "trl", 50) == rows.lines(1, 3, "trl", 50) != rows.lines(2, 3, "trl", 50)
