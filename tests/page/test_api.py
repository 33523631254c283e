"""The HTTP API and its client: what they answer is what the ranker says, and a mistake is a sentence."""

from __future__ import annotations

import json
import runpy
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.testclient import TestClient

from crm.page.api import make_api
from crm.page.client import LeaderboardClient, LeaderboardError
from crm.page.guard import MAX_BODY, Guard
from crm.page.picks import Picking
from crm.page.profile import MAX_CHARACTERS, Profile
from crm.page.ranker import Ranker
from crm.picking.pool import read_pool


@pytest.fixture
def ranker(make_ranker: Any) -> Ranker:
    made: Ranker = make_ranker()
    return made


def api_of(ranker: Ranker) -> FastAPI:
    return make_api(ranker, Picking(ranker, read_pool()), judge="words", version="9")


@pytest.fixture
def http(ranker: Ranker) -> TestClient:
    app = Guard(api_of(ranker), per_minute=10_000)
    return TestClient(app, raise_server_exceptions=False)


@pytest.fixture
def address(ranker: Ranker) -> Iterator[str]:
    """A server on a port of its own."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    app = Guard(api_of(ranker), per_minute=10_000)
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


def test_the_client_gets_what_the_ranker_says(address: str, ranker: Ranker) -> None:
    with LeaderboardClient(address) as client:
        bank = client.bank()
        assert bank["models"] == ["base", "brief", "middle", "wordy"] and bank["topics"] == {"S": 4, "T": 4}
        ranking = client.rank(criteria=["concise"], topics=["T"])
        board = ranker.rank(Profile(("concise",), (), ("T",))).board
        assert board is not None
        assert {row["model"]: row["win_rate"] for row in ranking["leaderboard"]} == pytest.approx(board.win_rates())
        assert ranking["queries"] == 4 and ranking["criteria"] == ["concise"]
        first, second = {"criteria": ["long"], "topics": ["T"]}, {"criteria": ["concise"], "topics": ["T"]}
        found = client.compare(first, second)
        assert found["tau"] == pytest.approx(-1.0) and found["models"][0]["model"] == "brief"
        why = client.why("brief", **second)
        assert len(why) == 4 and why[0]["response"] == "brief" and why[0]["probability"] > 0.5
        with pytest.raises(LeaderboardError, match="'gpt' is not a model"):
            client.why("gpt", **second)
        with pytest.raises(LeaderboardError, match="topics: 'X' is not in the bank"):
            client.rank(topics=["X"])


def test_files_of_a_link(http: TestClient) -> None:
    query = Profile(("long",)).to_query()
    for ending, start in (("csv", b"\xef\xbb\xbfrank,"), ("json", b"{"), ("png", b"\x89PNG"), ("html", b"<!doctype")):
        response = http.get(f"/api/export/{ending}?{query}")
        assert response.status_code == 200 and response.content.lower().startswith(start.lower()), ending
        assert f'.{ending}"' in response.headers["content-disposition"]


BAD_BODIES: list[Any] = [
    b"", b"{", b"[]", b"null", b"1", b'"x"', b"\xff\xfe", b"[" * 50_000, b'{"criteria": "x"}', b'{"criteria": [1]}',
    b'{"criteria": [null]}', b'{"criteria": {"a": 1}}', b'{"queries": -1}', b'{"queries": 1.5}', b'{"queries": "9"}',
    b'{"topics": ["../../etc/passwd"]}', b'{"baseline": "/etc/passwd"}', b'{"models": ["../x"]}', b'{"about": []}',
    b'{"judge": "http://169.254.169.254/"}', b'{"criteria": NaN}', b'{"base_url": "file:///etc/passwd"}',
    json.dumps({"criteria": ["x" * (MAX_CHARACTERS + 1)]}).encode(), json.dumps({"criteria": ["x"] * 2000}).encode(),
    json.dumps({"criteria": [str(n) for n in range(21)]}).encode(), b'{"criteria": ["' + b"x" * 1_000_000 + b'"]}',
]  # fmt: skip
BAD_PATHS = [
    "/api/export/exe", "/api/export/../../etc/passwd", "/api/export/%2e%2e%2fetc%2fpasswd", "/api/export//etc/passwd",
    "/api/nothing", "/api/export/csv?queries=x", "/api/export/csv?topics=x", "/api/export/csv?criteria=" + "x" * 600,
]  # fmt: skip


def test_malformed_calls_are_4xx_all(http: TestClient) -> None:
    answers = [http.post(f"/api/{route}", content=body) for route in ("rank", "compare", "why") for body in BAD_BODIES]
    answers += [http.get(path) for path in BAD_PATHS]
    answers += [http.get("/api/rank"), http.delete("/api/bank"), http.post("/api/bank", json={})]
    assert len(answers) >= 60
    assert [(a.status_code, a.text[:80]) for a in answers if not 400 <= a.status_code < 500] == []


def test_the_guard_bounds_bodies_and_rates_and_says_what_a_browser_may_do(ranker: Ranker) -> None:
    app = Guard(api_of(ranker), per_minute=5)
    client = TestClient(app)
    answer = client.get("/api/bank")
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff" and answer.headers["x-frame-options"] == "DENY"
    too_large = client.post("/api/rank", content=b"x" * (MAX_BODY + 1))
    assert too_large.status_code == 413 and "65,536 bytes" in too_large.json()["error"]

    def pieces() -> Iterator[bytes]:
        yield from [b"x" * 1000] * 100

    assert client.post("/api/rank", content=pieces()).status_code == 413, "without a length, too"
    codes = [client.get("/api/health").status_code for _ in range(6)]
    assert codes[-1] == 429 and "content-security-policy" in client.get("/api/health").headers


def test_the_example_of_the_docs_runs(address: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "leaderboard_page.md").read_text(encoding="utf-8")
    code = page.split("<!-- example: client -->\n```python\n")[1].split("```")[0]
    assert "http://127.0.0.1:7860" in code
    script = tmp_path / "example.py"
    script.write_text(code.replace("http://127.0.0.1:7860", address), encoding="utf-8")
    runpy.run_path(str(script))
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()] == [
        ["1", "brief"],
        ["2", "base"],
        ["3", "middle"],
    ]
