"""Many clients at once over real connections: nothing is mixed, who leaves costs nothing, health answers."""

from __future__ import annotations

import json
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from crm.judges.judge import Asked, Reading
from tests.rewards.server.serving import WordJudge, group, log_words, serve

CLIENTS = 40
AT_ONCE_S = 0.1


def test_forty_clients_at_once_get_their_own_rewards() -> None:
    """Each has responses of a length of its own; answers are worth nothing unless they are to the same request."""
    judge = WordJudge(pause=0.02)
    with serve(judge) as address:

        def ask(number: int) -> tuple[list[float], list[float]]:
            texts = [f"nonce{number} " * (number + 1), f"nonce{number}", "a " * (CLIENTS - number)]
            with httpx.Client(base_url=address, timeout=20) as http:
                given = [http.post("/v1/score", json={"groups": [group(*texts)]}).json() for _ in range(3)]
            assert given[0] == given[1] == given[2]
            return given[0]["groups"][0]["rewards"], [log_words(text) for text in texts]

        with ThreadPoolExecutor(CLIENTS) as pool:
            for given, expected in pool.map(ask, range(CLIENTS)):
                assert given == pytest.approx(expected)
    assert len([sides for sides in judge.asked if sides]) < 3 * CLIENTS / 2, "requests were read one by one"


def test_a_client_that_leaves_is_not_read() -> None:
    judge = WordJudge(pause=0.4)
    with serve(judge) as address, httpx.Client(base_url=address, timeout=20) as http, ThreadPoolExecutor(2) as pool:
        first = pool.submit(http.post, "/v1/score", json={"groups": [group("first")]})
        while not judge.asked:
            time.sleep(0.005)
        body = json.dumps({"groups": [group("gone")]}).encode()
        with socket.create_connection((urlsplit(address).hostname, urlsplit(address).port)) as leaving:
            head = f"POST /v1/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
            leaving.sendall(head.encode() + body)
            while http.get("/health").json()["waiting"] != 1:
                time.sleep(0.005)
        while http.get("/health").json()["waiting"]:
            time.sleep(0.005)
        assert not first.done(), "the place was free only when its turn came"
        assert http.post("/v1/score", json={"groups": [group("after")]}).status_code == 200
    assert "gone" not in {side for sides in judge.asked for side in sides}


class HeldJudge(WordJudge):
    """Reads nothing until it is let go."""

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        yield from super().read(comparisons)
        assert self.go.wait(20)  # type: ignore[attr-defined]

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "go", threading.Event())


@contextmanager
def held(judge: HeldJudge) -> Iterator[None]:
    """In the end it is let go, whatever happened."""
    try:
        yield
    finally:
        judge.go.set()  # type: ignore[attr-defined]


def wait_until(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "did not happen"
        time.sleep(0.005)


def test_a_full_server_says_so_at_once_and_is_healthy_meanwhile(request: pytest.FixtureRequest) -> None:
    """Half of the answers come within `AT_ONCE_S` on a quiet machine, which is told; five times as long fails."""
    judge, calls = HeldJudge(), 30
    with (
        serve(judge, queue_rows=4) as address,
        httpx.Client(base_url=address, timeout=20) as http,
        ThreadPoolExecutor(3) as pool,
        held(judge),
    ):
        asked = [pool.submit(http.post, "/v1/score", json={"groups": [group("first")]})]
        wait_until(lambda: judge.asked)
        asked += [pool.submit(http.post, "/v1/score", json={"groups": [group("a", "b")]}) for _ in range(2)]
        wait_until(lambda: http.get("/health").json()["waiting"] == 4)
        full = [timed(lambda: http.post("/v1/score", json={"groups": [group("c")]})) for _ in range(calls)]
        well = [timed(lambda: http.get("/health")) for _ in range(calls)]
        judge.go.set()  # type: ignore[attr-defined]
        assert [future.result().status_code for future in asked] == [200] * 3
    for name, status, answers in (("full", 503, full), ("health", 200, well)):
        middle = statistics.median(seconds for _, seconds in answers)
        request.node.user_properties.append((f"{name}_p50_s", round(middle, 4)))
        print(f"{name}: half of the answers within {middle:.3f} s ({AT_ONCE_S:g} asked)")
        assert middle < 5 * AT_ONCE_S and {answer.status_code for answer, _ in answers} == {status}
    assert full[0][0].headers["Retry-After"] == "1"
    assert full[0][0].json() == {"error": "4 readings wait already; try again in a moment"}


def timed(ask: Callable[[], httpx.Response]) -> tuple[httpx.Response, float]:
    began = time.perf_counter()
    answer = ask()
    return answer, time.perf_counter() - began
