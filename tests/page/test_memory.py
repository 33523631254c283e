"""Freed memory goes back to the system, once, when nobody waits for anything."""

from __future__ import annotations

import ctypes
import time
from typing import Any

import psutil
import pytest

from crm.page import scoring_queue
from crm.page.memory import give_back
from crm.page.profile import Profile
from crm.page.ranker import Ranker


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="another C library than glibc")
def test_what_was_freed_is_given_back() -> None:
    process = psutil.Process()
    pieces = [b"x" * 64_000 for _ in range(1600)]  # about 100 MB, too small each to be mapped on its own
    del pieces[:-1]  # the last one keeps the heap from shrinking by itself
    before = process.memory_info().rss
    give_back()
    assert before - process.memory_info().rss > 80e6


def test_a_server_gives_back_once_it_is_idle(make_ranker: Any, judge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[float] = []
    monkeypatch.setattr(scoring_queue, "IDLE_S", 0.05)
    monkeypatch.setattr(scoring_queue, "give_back", lambda: calls.append(time.monotonic()))
    ranker: Ranker = make_ranker(judge)
    judge.go.clear()
    steps = ranker.rank(Profile())
    next(steps)
    before = len(calls)
    time.sleep(0.3)
    assert len(calls) == before, "somebody waits"
    judge.go.set()
    list(steps)
    time.sleep(0.5)
    assert len(calls) == before + 1, "once"
