"""A key that a server sends back, in whatever letters, is never shown; what does not repeat it is."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crm.criteria import prompts, schemas
from crm.criteria.schemas import CriteriaReply
from crm.io.chat.asker import Asker, Request
from crm.io.chat.endpoint import Endpoint
from crm.io.chat.failures import one_line
from crm.io.chat.hiding import LEFT_OUT, hide
from crm.judges.llm_judge import LlmJudge
from crm.schema import Comparison, Message
from tests.io.chat.conftest import spellings

KEY = "sk-proj-4fTq9ZsLw2Xb7KmRz0"
WAYS = [way.replace(" ", "_") for way in spellings(KEY)]


@pytest.mark.parametrize("kind", ["echo", "sorry"])
@pytest.mark.parametrize("way", WAYS)
def test_no_spelling_of_the_key_reaches_an_outcome_or_a_log(
    way: str, kind: str, server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """In a status of 400, and as the model's own words."""
    endpoint = Endpoint(server.url, "tester", KEY, attempts=1)
    asked = Message("user", f"#{kind}_{way}-1 please")
    with caplog.at_level(logging.DEBUG, logger="crm"):
        [outcome] = Asker(endpoint).ask_all([Request("x", (asked,))], CriteriaReply, (prompts, schemas))
        row = Comparison("x", "x", (asked.content,), (asked,), (asked,), (Message("assistant", "b"),), "a")
        list(LlmJudge(endpoint).read([(row, "ab")]))
    assert outcome.failure in ("rejected", "refusal")
    told = f"{outcome} {caplog.text}"
    assert spellings(KEY)[way.replace("_", " ")] not in told
    assert ("[key]" if way == "plain" else LEFT_OUT) in outcome.detail


@pytest.mark.parametrize("limit", [200, 400])
@pytest.mark.parametrize("way", spellings(KEY))
def test_no_cut_leaves_a_part_of_it(way: str, limit: int) -> None:
    """However far back it stands: blanks before it are taken out last."""
    spelled = spellings(KEY)[way]
    parts = {spelled[at : at + 20] for at in range(len(spelled) - 19)}
    starts = range(10 * limit - len(spelled) - 2, 10 * limit + 2, 7)
    for start in starts:
        found = one_line(" " * start + spelled, KEY, limit)
        assert not any(part in found for part in parts), start


@pytest.mark.parametrize(
    "text",
    [
        "status 400: this model's maximum context length is 8192 tokens",
        "model sk-proj-9 of 2f8a7c4e1b9d4a3fa1c0d7e6b5f4c3b2 is not served here",
        "Z2l2ZSBtZSB5b3VyIGhvbWV3b3Jr is no name; see https://example.org/a%20b?c=%C3%BC &amp; more",
        "\\u00fcber, =C3=BC, deadbeef deadbeef deadbeef, ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
        "",
    ],
)
def test_what_does_not_repeat_it_is_shown(text: str) -> None:
    assert hide(text, KEY) == text


def test_a_short_key_is_no_secret_but_for_its_own_letters() -> None:
    assert hide("EMPTY RU1QVFk= empty", "EMPTY") == "[key] RU1QVFk= empty"


@given(st.text() | st.text(alphabet="ABCDEFabcdef0123456789+/=-_%&#;\\ux "))
def test_any_text_can_be_looked_at(text: str) -> None:
    assert hide(text, KEY) in (text, LEFT_OUT)
