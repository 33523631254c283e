"""Host names, body sizes and addresses of the HTTP servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient

from crm.config import compose
from crm.web import BodyLimit, KnownHosts, bound

LOCAL, OPEN, NAMED = ("127.0.0.1", ()), ("192.168.1.7", ()), ("192.168.1.7", ("Board.example.org", "2001:db8::1"))
HOSTS = [
    *((LOCAL, host, 200) for host in ("LocalHost:7860", "[::1]:7860", "127.0.0.1")),
    *((LOCAL, host, 400) for host in ("evil.example:7860", "127.0.0.1.evil.example", "", "[::2]")),
    *((OPEN, host, 200) for host in ("anything.example", "")),
    *((NAMED, host, 200) for host in ("board.example.org:443", "[2001:db8::1]:80", "localhost:7860")),
    *((NAMED, host, 400) for host in ("evil.example", "")),
]


def api() -> FastAPI:
    made = FastAPI()

    @made.post("/{path}")
    async def size(request: Request, path: str) -> int:
        return len(await request.body())

    made.get("/api/any")(lambda: "")
    return made


@pytest.mark.parametrize(("server", "host", "status"), HOSTS)
def test_which_names_are_answered(server: tuple[str, tuple[str, ...]], host: str, status: int) -> None:
    app = KnownHosts(api(), listening=server[0], hosts=server[1])
    assert TestClient(app).get("/api/any", headers={"Host": host}).status_code == status


def test_a_body_is_limited_with_and_without_a_length() -> None:
    client = TestClient(BodyLimit(api(), 10))

    def pieces(count: int) -> Iterator[bytes]:
        yield from [b"x" * 5] * count

    assert client.post("/any", content=b"x" * 10).json() == 10 == client.post("/any", content=pieces(2)).json()
    for answer in (client.post("/any", content=b"x" * 11), client.post("/any", content=pieces(3))):
        assert answer.status_code == 413 and "body: larger than 10 bytes" in answer.text


def test_an_address_that_cannot_be_used() -> None:
    with bound("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=f"host=127.0.0.1 port={port}: cannot be used .*in use.*take another"):
            bound("127.0.0.1", port)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("hosts=[http://x.example]", "hosts='http://x.example': expected names such as .*without scheme and port"),
        ("hosts=['*']", r"hosts='\*': expected names"),
    ],
)
def test_settings_are_checked(words: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=sentence):
        compose("app", ["checkpoint=none", words], tmp_path)
    compose("app", ["checkpoint=none", "hosts=[x.example,'2001:db8::1']"], tmp_path)
