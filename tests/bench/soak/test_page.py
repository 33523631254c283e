"""The page under a small crowd: a sound server holds, one that mixes answers and keeps files open is found out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.soak import page, servers

pytestmark = pytest.mark.slow

FAULTY = """
import os
from dataclasses import replace
from crm.cli import app
from crm.page.index_ranker import IndexRanker

known, before, kept = IndexRanker.known, [], []

def mixed(self, profile):
    found = known(self, profile)
    before.append(found)
    kept.append(open(os.devnull))
    if len(before) > 10 and len(before) % 5 == 0:
        return before[-2]
    return replace(found, board=before[-2].board) if len(before) > 10 and len(before) % 5 == 1 else found

IndexRanker.known = mixed
app()
"""


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "PEOPLE", 10)
    monkeypatch.setattr(page, "REST_S", (0.0, 0.2))
    monkeypatch.setattr(page, "NEW", 0.5)
    monkeypatch.setattr(page, "SETTLES_S", 5.0)


def test_a_crowd_gets_its_own_rankings(task: Callable, checkpoint: Path, tried: Callable[..., None]) -> None:
    found = page.run(task(1), checkpoint)
    assert found.held, found.as_row()
    assert found.tried["compared"] >= 5 and found.tried["given up"] and found.measured["waited, s"]["p50"] > 0
    assert len(found.watched["page"]) >= 2 and found.latency[0]["n"] > 0
    tried(inputs=found.tried["requests"], faults=found.tried["given up"])


def test_mixed_answers_and_files_kept_open_are_found(
    task: Callable, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "faulty.py"
    script.write_text(FAULTY)
    monkeypatch.setitem(servers.COMMANDS, "app", script)
    found = page.run(task(1), checkpoint)
    said = " ".join(found.examples)
    assert "answered [" in said, "an answer to another wish"
    assert "another ranking" in said, "the right wish above the scores of another"
    assert {limit.name for limit in found.limits if not limit.held} == {"more descriptors"}
