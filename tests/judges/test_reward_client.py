"""The client waits for a server, masks or raises, never makes a number up; and the judge that stands on it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest

from crm.judges.controls import LengthJudge
from crm.judges.reward_client import GroupRewards, RewardClient, ServerLostError
from crm.judges.server_judge import ServerJudge
from crm.schema import Comparison
from tests.rewards.server.serving import LONG, OnlyCompares, WordJudge, group, log_words, serve
from tests.running_app import free_port

Answer = Callable[[httpx.Request], httpx.Response]


def client(answer: Answer, **settings: Any) -> RewardClient:
    given: dict[str, Any] = {"deadline_s": 0.6, **settings}

    def streamed(request: httpx.Request) -> httpx.Response:
        made = answer(request)
        return httpx.Response(made.status_code, headers=made.headers, stream=httpx.ByteStream(made.content))

    return RewardClient("http://test", transport=httpx.MockTransport(streamed), **given)


def said(*rewards: Any, digest: str = "d") -> httpx.Response:
    row = {"rewards": rewards, "reasons": [None] * len(rewards)}
    return httpx.Response(200, json={"digest": digest, "groups": [row]})


def refuse(_request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused")


def test_many_groups_come_back_in_their_order_through_several_requests() -> None:
    with serve(WordJudge()) as address, RewardClient(address) as http:
        asked = [group("a " * (number % 30), "b") for number in range(200)]
        expected = [(log_words("a " * (number % 30)), log_words("b")) for number in range(200)]
        assert [found.rewards for found in http.score(asked)] == [pytest.approx(pair) for pair in expected]
        (long,) = http.score([group("x " * (LONG + 1), "b")])
        assert long == GroupRewards((None, log_words("b")), ("too_long", None))
        assert http.model().digest == http.digest == "length-words-2"


def test_a_full_server_is_asked_again_when_it_says_and_one_that_is_gone_until_the_deadline() -> None:
    asked = []

    def busy_twice(request: httpx.Request) -> httpx.Response:
        asked.append(time.monotonic())
        return httpx.Response(503, headers={"Retry-After": "0"}) if len(asked) < 3 else said(1.5)

    assert client(busy_twice).score([group("a")])[0].rewards == (1.5,)
    started = time.monotonic()
    with pytest.raises(ServerLostError, match="http://test/v1/score: ConnectError: refused"):
        client(refuse).score([group("a")])
    (masked,) = client(refuse, mask=True).score([group("a", "b")])
    assert masked == GroupRewards((None, None), ("unanswered", "unanswered"))
    assert 0.5 < time.monotonic() - started < 4


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(500, json={"error": "broke"}),
        httpx.Response(200, text="<html>"),
        httpx.Response(200, text='{"digest": "d", "groups": [{"rewards": [NaN], "reasons": [null]}]}'),
        httpx.Response(200, json={"digest": "d", "groups": []}),
        httpx.Response(200, json=[1]),
        httpx.Response(200, content=b"x" * 20_000_001),
    ],
    ids=["500", "html", "nan", "too few", "no object", "too long"],
)
def test_an_answer_of_no_use_is_no_number(answer: httpx.Response) -> None:
    with pytest.raises(ServerLostError):
        client(lambda _: answer).score([group("a")])
    assert client(lambda _: answer, mask=True).score([group("a")])[0].rewards == (None,)


def test_a_mistake_is_told_in_the_server_s_words_and_not_masked() -> None:
    with serve(WordJudge(), key="hush") as address:
        with RewardClient(address, mask=True) as http, pytest.raises(ValueError, match="status 401: key: missing or"):
            http.score([group("a")])
        with RewardClient(address, key="hush") as http, pytest.raises(ValueError, match=r"422: groups\.0\.responses"):
            http.score([group()])


def test_another_model_behind_the_same_address_is_refused() -> None:
    digests = iter(["d", "d", "e"])
    http = client(lambda _: said(1.0, digest=next(digests)), concurrency=1, mask=True)
    http.score([group("a")])
    with pytest.raises(ValueError, match="serves the model e, expected d"):
        http.score([group("a")] * 100)


def test_a_restart_in_the_middle_is_waited_for() -> None:
    port, judge = free_port(), WordJudge(pause=0.05)
    found: list[GroupRewards] = []
    with RewardClient(f"http://127.0.0.1:{port}", deadline_s=20, concurrency=1) as http:
        asked = [group(f"a {'b ' * (number % 9)}") for number in range(64 * 6)]
        training = threading.Thread(target=lambda: found.extend(http.score(asked)))
        with serve(judge, port):
            training.start()
            while not judge.asked:
                time.sleep(0.005)
        time.sleep(0.5)
        with serve(WordJudge(), port):
            training.join(20)
    assert [row.rewards[0] for row in found] == [log_words(row["responses"][0]) for row in asked]


@pytest.mark.parametrize("judge", [LengthJudge(), OnlyCompares()], ids=["pointwise", "only compares"])
def test_the_judge_reads_what_the_judge_behind_the_server_reads(judge: Any, many: list[Comparison]) -> None:
    asked = [(row, order) for row in many for order in ("ab", "ba")]
    expected = [reading for portion in judge.read(asked) for reading in portion]
    with serve(judge) as address, RewardClient(address) as http:
        remote = ServerJudge(http)
        assert (remote.digest, remote.pointwise) == (judge.digest, getattr(judge, "pointwise", False))
        found = [reading for portion in remote.read(asked) for reading in portion]
    assert [(row.comparison, row.order) for row in found] == [(row.comparison, row.order) for row in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.preference_logit == pytest.approx(theirs.preference_logit)
        assert (ours.score_a, ours.score_b) == (theirs.score_a, theirs.score_b)


def test_the_judge_leaves_out_what_has_no_answer_and_fails_what_cannot_be_read(many: list[Comparison]) -> None:
    model = {"data": [{"id": "m", "digest": "d", "pointwise": True}]}

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json=model)
        groups = json.loads(request.content)["groups"]
        if len(groups) < 64:
            raise httpx.ReadError("gone")
        rows = [{"rewards": [None, 1.0], "reasons": ["too_long", None]} for _ in groups]
        return httpx.Response(200, json={"digest": "d", "groups": rows})

    rows = [replace(row, id=str(number)) for number, row in enumerate([*many, *many, *many])]
    remote = ServerJudge(client(answer, mask=True, concurrency=1, deadline_s=0.3))
    (found,) = remote.read([(row, "ab") for row in rows])
    assert [(row.comparison.id, row.preference_logit, row.failure) for row in found] == [
        (str(number), None, "too_long") for number in range(64)
    ]
    assert remote.left_out == "unanswered"
