"""Extraction against an endpoint that misbehaves: every fault by itself, then all of them mixed, then a restart."""

from __future__ import annotations

import json
import math
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crm.criteria.extraction import Extraction, count, extract, plan
from crm.io.chat.asker import Asker
from crm.io.chat.cache import ReplyCache
from crm.io.chat.endpoint import Endpoint
from crm.io.chat.failures import FAILURES
from crm.schema import Message, Preference

ATTEMPTS = 3
CALLS = 20
"""Of each mode."""
DEADLINE_S = 20.0
SLOW = ("hang", "drip")
FAULTS: dict[str, tuple[str | None, int]] = {
    "429_huge": ("rate_limited", 1),  # waiting would outlast the deadline
    "429_far_date": ("rate_limited", 1),
    "429_garbage": ("rate_limited", ATTEMPTS),
    "429_negative": ("rate_limited", ATTEMPTS),
    "500": ("server_error", ATTEMPTS),
    "502_html": ("server_error", ATTEMPTS),
    "reset": ("connection", ATTEMPTS),
    "cut_body": ("connection", ATTEMPTS),
    "hang": ("timeout", 1),
    "drip": ("timeout", 1),
    "400": ("rejected", 1),
    "redirect": ("rejected", 1),
    "html_200": ("not_completion", 1),
    "gzip": ("not_completion", 1),
    "cut_json": ("not_completion", 1),
    "empty_body": ("not_completion", 1),
    "deep": ("not_completion", 1),
    "nan": ("not_completion", 1),
    "not_utf8": ("not_completion", 1),
    "surrogate": ("not_completion", 1),
    "huge": ("not_completion", 1),
    "no_choices": ("empty", 1),
    "null_content": ("empty", 1),
    "blank": ("empty", 1),
    "refusal_field": ("refusal", 1),
    "refusal_text": ("refusal", 1),
    "filtered": ("refusal", 1),
    "length": ("truncated", 1),
    "two_objects": ("not_json", 2),  # sent back once
    "list": ("not_json", 2),
    "inner_object": ("not_json", 2),
    "nan_text": ("not_json", 2),
    "deep_text": ("not_json", 2),
    "duplicate_key": ("not_json", 2),
    "wrong_schema": ("wrong_schema", 2),
    "placeholder": ("wrong_schema", 2),
    "duplicate": ("wrong_schema", 2),
    "good": (None, 1),
    "no_usage": (None, 1),
    "fenced": (None, 1),
    "prose": (None, 1),
    "thinking": (None, 1),
}
"""Mode of the server: the kind of failure (none where it is to be answered) and the requests that it costs."""


def preference(name: str) -> Preference:
    return Preference(
        id=name,
        prompt=(Message("user", f"#{name} what is nice?"),),
        response_a=(Message("assistant", "A long one, with much detail."),),
        response_b=(Message("assistant", "Short."),),
        winner="a",
    )


def endpoint(url: str, **settings: Any) -> Endpoint:
    quick = {"attempts": ATTEMPTS, "call_deadline_s": DEADLINE_S, "backoff_s": 0.01, "breaker": 10_000}
    return Endpoint(url, "tester", **{**quick, **settings})


def check_criteria(extraction: Extraction, valid_answer: Callable[[str], str]) -> None:
    """What was extracted is what the server meant; what was not has no criteria at all."""
    row = extraction.preference
    if extraction.status == "extracted":
        assert {"criteria_a": list(row.criteria_a), "criteria_b": list(row.criteria_b)} == json.loads(
            valid_answer(row.id)
        )
    else:
        assert extraction.status.removeprefix("failed:") in FAILURES
        assert extraction.detail
        assert row == preference(row.id)


def check_sums(asker: Asker, requests: int, sent: int) -> None:
    counts = asker.counts
    assert counts.requests == requests == counts.cached + counts.answered + counts.failures.total()
    assert counts.calls == sent
    assert counts.calls <= requests * (ATTEMPTS + 1)


@pytest.mark.parametrize("mode", FAULTS)
def test_each_fault_has_its_kind_and_its_price(server: Any, valid_answer: Any, mode: str) -> None:
    kind, price = FAULTS[mode]
    deadline = 0.4 if mode in SLOW else DEADLINE_S
    asker = Asker(endpoint(server.url, call_deadline_s=deadline))
    started = time.monotonic()
    extractions = extract([preference(f"{mode}-{n}") for n in range(CALLS)], asker)
    assert time.monotonic() - started < 0.4 * math.ceil(CALLS / asker.endpoint.concurrency) + 8
    status = "extracted" if kind is None else f"failed:{kind}"
    assert [extraction.status for extraction in extractions] == [status] * CALLS
    for extraction in extractions:
        check_criteria(extraction, valid_answer)
        assert mode != "gzip" or "compressed" in extraction.detail
    assert set(server.asked.values()) == {price}
    check_sums(asker, requests=CALLS, sent=CALLS * price)
    assert asker.counts.retries == (CALLS * (ATTEMPTS - 1) if price == ATTEMPTS else 0)
    assert asker.counts.repairs == (CALLS if price == 2 else 0)
    assert set(server.paths) == {"/v1/chat/completions"}  # no redirect was followed


@pytest.mark.slow
def test_mixed_faults_then_a_restart_that_asks_only_for_what_failed(
    server: Any, valid_answer: Any, tmp_path: Path
) -> None:
    rng = random.Random(5)
    bad = [mode for mode in FAULTS if FAULTS[mode][0] is not None]
    good = [mode for mode in FAULTS if FAULTS[mode][0] is None]
    modes = [rng.choice(bad if rng.random() < 0.3 else good) for _ in range(500)]
    rows = [preference(f"{mode}-{n}") for n, mode in enumerate(modes)]
    expected = Counter(FAULTS[mode][0] for mode in modes)
    failed = len(rows) - expected[None]
    assert 120 < failed < 190

    asker = Asker(endpoint(server.url, concurrency=32, call_deadline_s=4), ReplyCache(tmp_path / "replies.sqlite"))
    first = extract(rows, asker)
    assert [extraction.preference.id for extraction in first] == [row.id for row in rows]
    for extraction, mode in zip(first, modes, strict=True):
        check_criteria(extraction, valid_answer)
        assert extraction.status.removeprefix("failed:") == (FAULTS[mode][0] or "extracted")
    check_sums(asker, requests=500, sent=len(server.bodies))
    assert len(server.bodies) == sum(FAULTS[mode][1] for mode in modes)
    assert asker.counts.failures == expected - Counter({None: len(rows)})

    server.mode_of = lambda _name, _times: "good"
    server.asked.clear()
    again = Asker(endpoint(server.url), ReplyCache(tmp_path / "replies.sqlite"))
    cost = plan(rows, again)["criteria"]
    assert (cost.calls, cost.cached) == (failed, 500 - failed)
    second = extract(rows, again)
    assert set(server.asked) == {row.id for row, mode in zip(rows, modes, strict=True) if FAULTS[mode][0]}
    assert set(server.asked.values()) == {1}
    assert count(second) == {"extracted": 500}
    for extraction in second:
        check_criteria(extraction, valid_answer)
    assert (again.counts.cached, again.counts.answered) == (500 - failed, failed)


def test_rows_with_criteria_are_left_alone(server: Any) -> None:
    given = Preference.from_dict({**preference("good-1").to_dict(), "criteria_b": ["Prefers it short"]})
    extractions = extract([given, preference("good-2")], Asker(endpoint(server.url)))
    assert [extraction.status for extraction in extractions] == ["given", "extracted"]
    assert extractions[0].preference == given
    assert set(server.asked) == {"good-2"}
