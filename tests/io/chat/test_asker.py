"""Limits, retries, repairs, the cache and the secrets of an asker, each against our own server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from crm.criteria import prompts, schemas
from crm.criteria.schemas import CriteriaReply
from crm.io.chat.asker import Asker, Request
from crm.io.chat.cache import ReplyCache
from crm.io.chat.client import backoff, retry_after
from crm.io.chat.endpoint import Endpoint
from crm.schema import Message

KEY = "sk-very-secret-123"
ABOUT = (CriteriaReply, (prompts, schemas))


def endpoint(url: str, **settings: Any) -> Endpoint:
    return Endpoint(url, "tester", **{"call_deadline_s": 20.0, "backoff_s": 0.01, "breaker": 1000, **settings})


def request(name: str) -> Request:
    return Request(name, (Message("system", "Write criteria."), Message("user", f"#{name} please")))


def named(mode: str, n: int) -> list[Request]:
    return [request(f"{mode}-{i}") for i in range(n)]


@pytest.mark.parametrize(("mode", "least"), [("429_seconds", 1.0), ("429_date", 0.9)])
def test_retry_after_is_waited_for(server: Any, mode: str, least: float) -> None:
    server.mode_of = lambda _name, times: "good" if times else mode
    [outcome] = Asker(endpoint(server.url)).ask_all([request("wait-1")], *ABOUT)
    assert outcome.failure is None
    assert least <= server.arrivals[1] - server.arrivals[0]


def test_retry_after_by_hand() -> None:
    assert retry_after("7") == 7.0
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0  # in the past
    later = retry_after("Fri, 31 Dec 9999 23:59:59 GMT")
    assert later is not None and later > 1e9
    assert retry_after("9" * 5000) is not None
    for garbage in (None, "", "-5", "1.5", "soon", "²", "Wed, 99 Foo 2015", "1e3"):
        assert retry_after(garbage) is None, garbage


def test_backoff_doubles_with_jitter_of_the_seed() -> None:
    settings = endpoint("http://127.0.0.1:1", backoff_s=1.0, seed=3)
    pauses = [backoff(settings, "x", attempt) for attempt in range(1, 9)]
    assert pauses == [backoff(settings, "x", attempt) for attempt in range(1, 9)]
    for attempt, pause in enumerate(pauses):
        assert min(60, 2**attempt) / 2 <= pause <= min(60, 2**attempt)
    assert pauses != [backoff(settings, "y", attempt) for attempt in range(1, 9)]


def test_a_call_that_recovers_is_answered(server: Any) -> None:
    server.mode_of = lambda _name, times: ("500", "reset", "good")[times]
    asker = Asker(endpoint(server.url))
    assert [outcome.failure for outcome in asker.ask_all(named("x", 3), *ABOUT)] == [None] * 3
    assert (asker.counts.calls, asker.counts.retries, asker.counts.answered) == (9, 6, 3)


def test_one_repair_shows_the_model_its_reply_and_the_rule(server: Any, tmp_path: Path) -> None:
    server.mode_of = lambda _name, times: "good" if times else "duplicate"
    asker = Asker(endpoint(server.url), ReplyCache(tmp_path / "c.sqlite"))
    [outcome] = asker.ask_all([request("fix-1")], *ABOUT)
    assert outcome.value is not None and outcome.repaired
    assert (asker.counts.repairs, asker.counts.repaired, asker.counts.answered, asker.counts.calls) == (1, 1, 1, 2)
    first, second = (body["messages"] for body in server.bodies)
    assert second[:2] == first
    assert second[2] == {"role": "assistant", "content": '{"criteria_a": ["Be kind"], "criteria_b": ["be  KIND"]}'}
    assert "a criterion is on both sides" in second[3]["content"]
    [cached] = asker.ask_all([request("fix-1")], *ABOUT)
    assert cached.cached and cached.repaired and cached.value == outcome.value
    assert len(server.bodies) == 2


def test_failures_are_not_remembered(server: Any, tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "c.sqlite")
    modes = ("500", "placeholder", "two_objects", "refusal_text", "length", "html_200", "null_content")
    Asker(endpoint(server.url, attempts=1), cache).ask_all([request(f"{mode}-1") for mode in modes], *ABOUT)
    assert len(cache) == 0


def test_a_tampered_cache_entry_is_asked_for_again(server: Any, tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "c.sqlite")
    asker = Asker(endpoint(server.url), cache)
    asker.ask_all([request("good-1")], *ABOUT)
    [[key]] = cache._run("SELECT key FROM replies")
    for damage in ("{", '{"text": "{}", "repaired": false}', "[]", '{"text": "...", "repaired": 1}', '{"text": 5}'):
        cache.put(key, damage)
        [outcome] = asker.ask_all([request("good-1")], *ABOUT)
        assert outcome.value is not None and not outcome.cached
    assert server.asked == {"good-1": 6}


def test_results_in_order_within_the_limit_of_concurrency(server: Any) -> None:
    server.delay_s = 0.03
    seen: list[tuple[int, int]] = []
    asker = Asker(endpoint(server.url, concurrency=5))
    outcomes = asker.ask_all(named("good", 30), *ABOUT, progress=lambda done, total: seen.append((done, total)))
    assert [outcome.id for outcome in outcomes] == [f"good-{n}" for n in range(30)]
    assert seen == [(n, 30) for n in range(1, 31)]
    assert server.most_at_once == 5


def test_reported_tokens_are_counted_and_missing_ones_estimated(server: Any) -> None:
    asker = Asker(endpoint(server.url))
    asker.ask_all([*named("good", 3), request("no_usage-1")], *ABOUT)
    assert (asker.counts.prompt_tokens, asker.counts.completion_tokens) == (90, 36)
    assert 20 < asker.counts.unreported_tokens < 300
    assert asker.counts.tokens == 126 + asker.counts.unreported_tokens


def test_budgets_hold(server: Any) -> None:
    asker = Asker(endpoint(server.url, budget_calls=7, attempts=2))
    asker.ask_all([*named("500", 2), *named("good", 18)], *ABOUT)
    assert asker.counts.calls == len(server.bodies) == 7
    assert asker.counts.failures["budget"] >= 13
    asker = Asker(endpoint(server.url, budget_tokens=100, concurrency=1))
    asker.ask_all(named("good", 20), *ABOUT)
    assert (asker.counts.answered, asker.counts.failures) == (3, {"budget": 17})  # 42 tokens each
    asker.ask_all(named("good", 20), *ABOUT)
    assert asker.counts.answered == 3  # over the life of the asker


def test_the_deadline_of_the_run_ends_all(server: Any) -> None:
    asker = Asker(endpoint(server.url, total_deadline_s=1.0, call_deadline_s=0.4, concurrency=2))
    started = time.monotonic()
    outcomes = asker.ask_all(named("hang", 20), *ABOUT)
    assert time.monotonic() - started < 8
    kinds = [outcome.failure for outcome in outcomes]
    assert kinds == sorted(kinds, key=["timeout", "deadline"].index)
    assert 1 <= kinds.count("timeout") <= 4
    assert len(server.bodies) <= 6
    assert [outcome.failure for outcome in asker.ask_all(named("good", 2), *ABOUT)] == ["deadline"] * 2


def test_a_dead_endpoint_is_given_up() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    asker = Asker(endpoint(url, breaker=5, attempts=2, concurrency=1))
    asker.ask_all(named("good", 50), *ABOUT)
    assert asker.counts.calls == 10
    assert asker.counts.failures == {"connection": 5, "endpoint_down": 45}
    asker.ask_all(named("good", 3), *ABOUT)  # the next portion does not try it all again
    assert (asker.counts.calls, asker.counts.failures["endpoint_down"]) == (10, 48)


def test_an_answer_in_between_keeps_the_breaker_closed(server: Any) -> None:
    asker = Asker(endpoint(server.url, breaker=3, attempts=1, concurrency=1))
    rows = [request(f"{'good' if n % 3 == 2 else '500'}-{n}") for n in range(30)]
    asker.ask_all(rows, *ABOUT)
    assert asker.counts.failures == {"server_error": 20}


@pytest.mark.parametrize(("mode", "hint"), [("401", "api_key"), ("404", "base_url")])
def test_a_mistake_in_the_settings_stops_the_run(server: Any, tmp_path: Path, mode: str, hint: str) -> None:
    cache = ReplyCache(tmp_path / "c.sqlite")
    asker = Asker(endpoint(server.url, api_key=KEY, concurrency=1), cache)
    with pytest.raises(ValueError, match=hint) as caught:
        asker.ask_all([*named("good", 3), *named(mode, 20)], *ABOUT)
    assert len(server.bodies) == 4
    assert len(cache) == 3
    assert KEY not in str(caught.value) + repr(caught.value)


def test_the_key_is_sent_and_never_shown(server: Any) -> None:
    settings = endpoint(server.url, api_key=KEY, attempts=1)
    outcomes = Asker(settings).ask_all([request("echo_400-1"), request("echo_500-1")], *ABOUT)
    for outcome in outcomes:
        assert "you sent [key]" in outcome.detail  # so it did arrive
    assert KEY not in repr(outcomes) + repr(settings) + str(settings)
    for bad in ("", "sk 1", "sk\nX-Evil: 1", "schlüssel"):
        with pytest.raises(ValueError, match="api_key") as caught:
            endpoint(server.url, api_key=bad)
        assert not bad or bad not in str(caught.value)


def test_an_interruption_keeps_what_was_answered(server: Any, tmp_path: Path) -> None:
    def interrupt(done: int, _total: int) -> None:
        if done == 6:
            os.kill(os.getpid(), signal.SIGINT)

    path = tmp_path / "c.sqlite"
    server.delay_s = 0.02
    # A shell starts jobs in its background deaf to the signal, and the tests may be one.
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            Asker(endpoint(server.url, concurrency=2), ReplyCache(path)).ask_all(named("good", 40), *ABOUT, interrupt)
    finally:
        signal.signal(signal.SIGINT, former)
    kept = len(ReplyCache(path))
    assert 6 <= kept < 12
    asker = Asker(endpoint(server.url), ReplyCache(path))
    assert asker.plan(named("good", 40), *ABOUT).calls == 40 - kept
    asker.ask_all(named("good", 40), *ABOUT)
    assert (asker.counts.cached, asker.counts.calls) == (kept, 40 - kept)


def test_plan_sends_nothing_and_estimates(server: Any) -> None:
    asker = Asker(endpoint(server.url, max_tokens=100))
    requests = named("good", 10)
    plan = asker.plan(requests, *ABOUT)
    characters = sum(len(turn.content) for request in requests for turn in request.messages)
    assert (plan.requests, plan.cached, plan.calls) == (10, 0, 10)
    assert (plan.prompt_tokens, plan.max_completion_tokens) == (characters // 4, 1000)
    assert not server.bodies


def test_what_is_sent(server: Any) -> None:
    asker = Asker(endpoint(server.url, max_tokens=77, temperature=0.5, seed=9))
    # A lone surrogate cannot be sent as UTF-8; the escape of JSON can carry it.
    asker.ask_all([Request("s", (Message("user", "#good-1 \ud800"),))], *ABOUT)
    assert server.bodies[0] == {
        "model": "tester",
        "max_tokens": 77,
        "temperature": 0.5,
        "seed": 9,
        "messages": [{"role": "user", "content": "#good-1 \ud800"}],
    }
    Asker(endpoint(server.url, json_schema=True, seed=None, temperature=None)).ask_all([request("good-1")], *ABOUT)
    assert {"seed", "temperature"}.isdisjoint(server.bodies[1])
    assert server.bodies[1]["response_format"]["json_schema"]["schema"] == CriteriaReply.model_json_schema()


def test_inside_a_running_loop(server: Any) -> None:
    async def story() -> list[Any]:
        return list(await Asker(endpoint(server.url)).ask_many(named("good", 2), *ABOUT))

    outcomes = asyncio.run(story())
    assert [json.loads(outcome.value.model_dump_json())["criteria_b"] for outcome in outcomes] == [
        ["Wants good-0 to be short"],
        ["Wants good-1 to be short"],
    ]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("base_url", "localhost:8000"),
        ("base_url", "ftp://127.0.0.1/v1"),
        ("base_url", "http://user:hunter2@127.0.0.1/v1"),
        ("base_url", "http://127.0.0.1/v1?key=1"),
        ("base_url", "http://127.0.0.1:99999999/v1"),
        ("model", " "),
        ("temperature", 3.0),
        ("temperature", float("nan")),
        ("max_tokens", 0),
        ("concurrency", 0),
        ("attempts", 0),
        ("call_deadline_s", 0),
        ("total_deadline_s", float("inf")),
        ("budget_calls", -1),
        ("breaker", 0),
    ],
)
def test_a_bad_setting_is_named(setting: str, value: Any) -> None:
    settings = {"base_url": "http://127.0.0.1:1/v1", "model": "m", setting: value}
    with pytest.raises(ValueError, match=setting) as caught:
        Endpoint(**settings)
    assert "hunter2" not in str(caught.value)
