"""Whatever an endpoint does, a request ends in a valid value or a failure of a known kind."""

import json
import threading
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from crm.endpoint.client import BREAKER, ChatClient, EndpointConfig
from crm.endpoint.replies import ReplyCache, read_object, split_thoughts
from crm.schema import Message
from tests.endpoint.fake_endpoint import Answer, chat_endpoint, completion, repeating_endpoint


class Wanted(BaseModel):
    name: str


class Other(BaseModel):
    title: str


GOOD = '{"name": "x"}'
READ = partial(read_object, schema=Wanted)
ANSWERS: list[tuple[Answer, str | None]] = [
    (completion(GOOD), None),
    (completion(f"```json\n{GOOD}\n```"), None),
    (completion(f"Certainly:\n{GOOD}\nDoes this help?"), None),
    (completion(f"<think>maybe {GOOD}</think>\n{GOOD}"), None),
    (completion(f"{GOOD} or {GOOD}"), "not_json"),
    (completion(f"[{GOOD}]"), "not_json"),
    (completion('{"result": {"name": "x"}, oops'), "not_json"),
    (completion('{"name": 3}'), "wrong_schema"),
    (completion('{"name": "\\ud800"}'), "not_json"),
    (completion("I'm sorry, but I can't help with that."), "refusal"),
    (completion(None, refusal="No."), "refusal"),
    (completion(GOOD, "content_filter"), "refusal"),
    (completion(GOOD, "length"), "truncated"),
    (completion(" \n"), "empty"),
    (completion(None), "empty"),
    ((200, '{"choices": []}'), "empty"),
    ((200, "<html>502 Bad Gateway</html>"), "not_completion"),
    ((200, '{"choices": 3}'), "not_completion"),
    ((200, '{"choices": [{"mess'), "not_completion"),
    ((429, "{}"), "rate_limited"),
    ((500, "{}"), "server_error"),
    ((400, '{"error": "too long"}'), "rejected"),
    ((307, ""), "rejected"),
]


def client(url: str, cache: ReplyCache | None = None, **settings: Any) -> ChatClient:
    return ChatClient(EndpointConfig(base_url=url, model="m", **({"attempts": 2} | settings)), cache)


def question(text: str) -> tuple[Message, ...]:
    return (Message("user", text),)


def test_every_answer_is_a_value_or_a_failure_of_its_kind() -> None:
    """One endpoint gives all answers, side by side."""
    with chat_endpoint(lambda body, _: ANSWERS[int(body["messages"][0]["content"])][0]) as url:
        found = client(url).ask([question(str(number)) for number in range(len(ANSWERS))], READ, "1")
    for (answer, kind), outcome in zip(ANSWERS, found, strict=True):
        assert outcome.failure == kind, answer
        assert (outcome.value == Wanted(name="x")) == (kind is None)


def test_answers_are_paid_for_once_and_failures_asked_again(tmp_path: Path) -> None:
    with repeating_endpoint("bad", reply=GOOD) as (url, asked):
        requests = [question("good"), question("bad")]
        asking = client(url, ReplyCache(tmp_path / "replies"))
        assert asking.plan_for(Wanted, requests * 3).calls == 2, "equal requests are one"
        first = asking.ask_for(Wanted, requests * 3)[4:]
        assert [outcome.failure for outcome in first] == [None, "rejected"]
        again = client(url, ReplyCache(tmp_path / "replies"))
        assert (again.plan_for(Wanted, requests).cached, again.plan_for(Other, requests).cached) == (1, 0)
        second = again.ask_for(Wanted, requests)
        client(url, ReplyCache(tmp_path / "replies"), max_tokens=9).ask_for(Wanted, requests)
        client(url, ReplyCache(tmp_path / "replies"), temperature=1).ask_for(Wanted, requests[:1])
    assert [outcome.value for outcome in second] == [Wanted(name="x")] * 2
    assert asked == {"good": 2, "bad": 2}
    (tmp_path / "text").write_text("no cache")
    with pytest.raises(ValueError, match="text: cannot be used as a cache of replies"):
        ReplyCache(tmp_path / "text")


@pytest.mark.parametrize("json_schema", [False, True])
def test_an_invalid_reply_is_sent_back_once(json_schema: bool) -> None:
    forms = []

    def answer(body: dict[str, Any], _: dict[str, str]) -> Answer:
        forms.append(body.get("response_format"))
        last = body["messages"][-1]["content"]
        return completion(GOOD if "cannot be used: name: Field required" in last else "{}")

    with chat_endpoint(answer) as url:
        asked = client(url, json_schema=json_schema)
        assert asked.ask_for(Wanted, [question("a")])[0].value == Wanted(name="x")
        assert asked.ask([question("a")], READ, "1")[0].failure == "wrong_schema"
    properties = {"name": {"title": "Name", "type": "string"}}
    schema = {"type": "object", "title": "Wanted", "properties": properties, "required": ["name"]}
    strict = {"name": "Wanted", "strict": True, "schema": {**schema, "additionalProperties": False}}
    expected = {"type": "json_schema", "json_schema": strict} if json_schema else None
    assert forms == [expected, expected, None]


@pytest.mark.parametrize("proxy", ["", "LiteLLM", "OpenRouter"])
def test_a_parameter_that_is_refused_is_sent_no_more(caplog: pytest.LogCaptureFixture, proxy: str) -> None:
    """As OpenAI's reasoning models do, one parameter a refusal; proxies hand on the sentence without code and param."""

    def answer(body: dict[str, Any], _: dict[str, str]) -> Answer:
        if body["messages"][0]["content"] == "bad":  # as vLLM answers one long prompt
            error: dict[str, Any] = {"message": "'max_tokens' is too large", "param": "max_tokens", "code": 400}
            return 400, json.dumps({"error": error})
        for name, code in (("max_tokens", "unsupported_parameter"), ("temperature", "unsupported_value")):
            if name in body:
                error = {"message": "No.", "param": name, "code": code}
                if proxy:
                    why = f"Unsupported parameter: '{name}' is not supported with this model."
                    error = {"message": why, "param": None, "code": "400"}
                if proxy == "OpenRouter":
                    raw = {"raw": json.dumps({"error": error})}
                    error = {"message": "Provider returned error", "code": 400, "metadata": raw}
                return 400, json.dumps({"error": error})
        return completion(GOOD if body["max_completion_tokens"] == 9 else "")

    with chat_endpoint(answer) as url:
        asked = client(url, max_tokens=9)
        key = asked.key((), "1")
        assert asked.ask([question("bad")], READ, "1")[0].failure == "rejected" and not caplog.messages
        found = asked.ask([question(text) for text in ("1", "2", "3", "bad")], READ, "1")
    assert [outcome.failure for outcome in found] == [None, None, None, "rejected"]
    assert asked.key((), "1") == key and len(set(caplog.messages)) == 2


def test_the_key_is_sent_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRM_API_KEY", "secret-7")
    with chat_endpoint(lambda _, headers: (400, json.dumps({"error": headers["authorization"]}))) as url:
        (outcome,) = client(url).ask([question("a")], READ, "1")
    assert outcome.failure == "rejected" and "Bearer [key]" in outcome.detail
    with (
        chat_endpoint(lambda _, headers: (401, json.dumps({"error": headers["authorization"]}))) as url,
        pytest.raises(ValueError, match="the endpoint does not accept the key") as error,
    ):
        client(url).ask([question(str(number)) for number in range(20)], READ, "1")
    assert "secret-7" not in str(error.value)
    with pytest.raises(ValueError, match="key_variable: no environment variable") as error:
        client("http://localhost/v1", key_variable="secret-7")
    assert "secret-7" not in str(error.value)


def test_a_flagged_prompt_is_rejected_alone_and_no_credit_ends_the_asking() -> None:
    statuses = {"a": (403, '{"error": "your input was flagged"}'), "c": (403, "{}"), "d": (404, "{}")}
    with chat_endpoint(lambda body, _: statuses.get(body["messages"][0]["content"], completion(GOOD))) as url:
        found = client(url, concurrency=1).ask([question(text) for text in "abcd"], READ, "1")
        assert [outcome.failure for outcome in found] == ["rejected", None, "rejected", "rejected"]
        with pytest.raises(ValueError, match="does not accept the key"):
            client(url).ask([question("c")], READ, "1")
        statuses["b"] = (402, "{}")
        with pytest.raises(ValueError, match="no credit is left"):
            client(url, concurrency=1).ask([question(text) for text in "xb"], READ, "1")


@pytest.mark.parametrize(
    ("answer", "settings", "kinds"),
    [
        ((500, "{}"), {"attempts": 1, "concurrency": 1}, {"server_error": BREAKER, "endpoint_down": 30}),
        (completion(GOOD), {"budget_calls": 7}, {None: 7, "budget": BREAKER + 23}),
    ],
)
def test_a_dead_endpoint_and_a_spent_budget_end_the_asking(
    answer: Answer, settings: dict[str, int], kinds: dict[str | None, int]
) -> None:
    with chat_endpoint(lambda *_: answer) as url:
        found = client(url, **settings).ask([question(str(number)) for number in range(BREAKER + 30)], READ, "1")
    assert Counter(outcome.failure for outcome in found) == kinds


def test_it_asks_side_by_side_and_reports_progress() -> None:
    together = threading.Barrier(4, timeout=20)

    def answer(*_: object) -> Answer:
        together.wait()
        return completion(GOOD)

    seen: list[tuple[int, int]] = []
    with chat_endpoint(answer) as url:
        requests = [question(str(number)) for number in range(8)]
        client(url, concurrency=4).ask(requests, READ, "1", progress=lambda *done: seen.append(done))
    assert seen == [(number, 8) for number in range(1, 9)]


def test_a_slow_reply_is_a_timeout() -> None:
    stop = threading.Event()

    def answer(*_: object) -> Answer:
        stop.wait(20)
        return completion(GOOD)

    with chat_endpoint(answer) as url:
        (outcome,) = client(url, attempts=1, call_deadline_s=0.2).ask([question("a")], READ, "1")
        stop.set()
    assert (outcome.failure, outcome.detail) == ("timeout", "no reply within 0.2 s")


@pytest.mark.parametrize(
    ("text", "thoughts", "rest"),
    [
        ("plain", "", "plain"),
        ("<think>a</think>b", "a", "b"),
        ("a\n</think>\nb", "a", "b"),
        ("<think>never ends", "never ends", ""),
        ("say </think> in prose", "", "say </think> in prose"),
    ],
)
def test_thoughts_are_no_part_of_an_answer(text: str, thoughts: str, rest: str) -> None:
    assert split_thoughts(text) == (thoughts, rest)


@pytest.mark.parametrize("base_url", ["localhost:8000", "http://me:pw@host/v1", "http://host/v1?key=1", "http://a b/"])
def test_an_address_that_is_none_is_refused(base_url: str) -> None:
    with pytest.raises(ValueError, match=r"endpoint.base_url=.*expected an address"):
        EndpointConfig(base_url=base_url, model="m").need()
