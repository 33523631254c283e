"""The reward server under clients that send slowly or not at all: they are cut, and others are served meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.page.test_slow_clients import HEAD, connect, dripped
from tests.rewards.server.serving import WordJudge, group, serve

pytestmark = pytest.mark.slow

PATHS = (b"/v1/score", b"/v1/compare", b"/v1/rank", b"/get_reward", b"/classify", b"/pooling", b"/score")


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("HEADER_S", "BODY_S", "UPLOAD_S", "READ_S"):
        monkeypatch.setattr(f"crm.web.connections.{name}", 0.5)
    with serve(WordJudge()) as found:
        yield found


def test_a_header_that_drips_is_cut(address: str) -> None:
    with connect(address) as silent, connect(address) as dripping:
        assert dripped(dripping, b"x") is not None
        assert silent.recv(1) == b""


@pytest.mark.parametrize("path", PATHS)
def test_a_body_that_drips_is_408_and_others_are_served(address: str, path: bytes) -> None:
    with connect(address) as connection:
        connection.sendall(HEAD % path)
        asked = httpx.post(f"{address}/v1/score", json={"groups": [group("a")]})
        assert asked.status_code == 200
        said = dripped(connection, b"x")
        assert said is not None and b" 408 " in said and b"not complete within 0.5 seconds" in said
