"""A faulty endpoint: the LLM judge says nothing that it was not told; one that guesses, or waits on, is found out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bench.soak import endpoint, faults

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "DEADLINE_S", 0.5)
    monkeypatch.setattr(endpoint, "PAUSE_S", 0.0)


def test_no_verdict_is_made_up(task: Callable, tried: Callable[..., None]) -> None:
    found = endpoint.run(task(4))
    assert found.held, found.as_row()
    replies = found.measured["replies"]
    assert found.tried["verdicts"] and len(replies) > 10
    tried(inputs=found.tried["questions"], faults=sum(replies.values()) - replies["good"])


def test_a_guess_is_found(task: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crm.judges.llm_judge.read_verdict", lambda _text: ("first", None))
    found = endpoint.run(task(1))
    assert found.failures["made-up verdict"] and not found.held


def test_a_failure_that_is_not_counted_is_found(task: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = endpoint.LlmJudge._read_portion

    async def forgetful(self: Any, *given: Any) -> Any:
        found = await plain(self, *given)
        self.counts.failures.clear()
        return found

    monkeypatch.setattr(endpoint.LlmJudge, "_read_portion", forgetful)
    assert endpoint.run(task(1)).failures["failures not counted"]


def test_a_call_without_a_deadline_is_found(task: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    async def for_ever(call: Awaitable[Any], _limit: float) -> Any:
        return await call

    monkeypatch.setattr(asyncio, "wait_for", for_ever)
    monkeypatch.setattr(faults, "FAULTS", {})
    monkeypatch.setattr(faults, "PLAYED", ("drip",))
    monkeypatch.setattr(faults, "HANGS_S", 2.0)
    monkeypatch.setattr(endpoint, "SLACK_S", -1.0)
    found = endpoint.run(task(1))
    assert {limit.name for limit in found.limits if not limit.held} == {"slowest portion, s"}
