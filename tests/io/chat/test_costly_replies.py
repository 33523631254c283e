"""Replies as large as any that is read, of which each would take minutes to read carelessly."""

from __future__ import annotations

import time
from typing import Any

import pytest

from crm.criteria import prompts, schemas
from crm.criteria.schemas import CriteriaReply
from crm.io.chat.asker import Asker, Request
from crm.io.chat.client import MAX_REPLY_BYTES
from crm.io.chat.endpoint import Endpoint
from crm.judges.llm_judge import LlmJudge
from crm.schema import Comparison, Message
from tests.io.chat.conftest import costly

CPU_S = 10.0
"""Of this process, whatever else the machine does. The worst takes half a second; what was found took 143."""


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("mode", costly(""))
def test_no_reply_costs_more_than_its_bytes(server: Any, mode: str) -> None:
    """Read as criteria, where every wrong one is sent back once, and as a verdict."""
    assert len(costly("")[mode]()) < MAX_REPLY_BYTES, "or it would not be read at all"
    endpoint = Endpoint(server.url, "tester", call_deadline_s=60.0, attempts=1)
    asked = Message("user", f"#{mode}-1 please")
    started = time.process_time()
    [outcome] = Asker(endpoint).ask_all([Request("x", (asked,))], CriteriaReply, (prompts, schemas))
    row = Comparison("x", "x", ("Wants it short",), (asked,), (Message("assistant", "a"),), (asked,), "a")
    readings = [reading for portion in LlmJudge(endpoint).read([(row, "ab")]) for reading in portion]
    assert time.process_time() - started < CPU_S
    assert outcome.value is None and outcome.failure in (
        "not_json",
        "wrong_schema",
        "not_completion",
        "empty",
        "refusal",
    )
    said = [reading.preference_logit for reading in readings]
    assert not any(said) or mode == "costly_verdicts"
