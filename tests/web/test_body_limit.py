"""A body that is too large is refused whether or not its header says so, and nobody answers one that has gone."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import FastAPI, Request
from fastapi.testclient import TestClient

from crm.web.body_limit import BodyLimit


def made() -> TestClient:
    api = FastAPI()

    @api.post("/{path}")
    async def size(request: Request, path: str) -> int:
        return len(await request.body())

    return TestClient(BodyLimit(api, lambda path: 100 if path == "/files" else 10))


def pieces(count: int) -> Iterator[bytes]:
    yield from [b"x" * 5] * count


def test_each_path_has_its_limit_and_a_length_that_lies_changes_nothing() -> None:
    client = made()
    assert client.post("/any", content=b"x" * 10).json() == 10
    assert client.post("/files", content=b"x" * 100).json() == 100
    for refused in (
        client.post("/any", content=b"x" * 11),
        client.post("/any", content=pieces(3)),
        client.post("/any", content=b"x", headers={"Content-Length": "-1"}),
    ):
        assert refused.status_code == 413 and "body: larger than 10 bytes" in refused.text
    assert client.post("/any", content=pieces(2)).json() == 10
