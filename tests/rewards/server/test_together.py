"""Many clients at once over real connections: nothing is mixed, who leaves costs nothing, health answers."""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import httpx
import pytest

from tests.rewards.server.serving import WordJudge, group, log_words, serve

CLIENTS = 40


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


def test_a_full_server_says_so_at_once_and_is_healthy_meanwhile() -> None:
    with serve(WordJudge(pause=0.5), queue_rows=4) as address, httpx.Client(base_url=address, timeout=20) as http:
        with ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(http.post, "/v1/score", json={"groups": [group("a", "b")]}) for _ in range(8)]
            time.sleep(0.2)
            started = time.perf_counter()
            full = http.post("/v1/score", json={"groups": [group("c")]})
            assert http.get("/health").json()["status"] == "ok"
            assert time.perf_counter() - started < 0.2
            statuses = sorted(future.result().status_code for future in asked)
        assert (full.status_code, full.headers["Retry-After"]) == (503, "1")
        assert full.json() == {"error": "4 readings wait already; try again in a moment"}
        assert set(statuses) == {200, 503} and 2 <= statuses.count(200) <= 4
