"""Clients that leave while they send: both servers go on, and their logs hold no traceback."""

from __future__ import annotations

import itertools
import logging
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.page.browsing import serve_ranker
from tests.page.counting import counting_ranker
from tests.rewards.serving import WordJudge, serve

PAGE = ("rank", "compare", "why", "sentences", "picks", "queries", "export/csv", "nothing", "bank")
REWARDS = ("v1/score", "v1/compare", "v1/rank", "get_reward", "classify", "nothing", "health")
BODY = b'{"criteria": ["Prefers concise answers"], "groups": [{"messages": ['
AT_ONCE = struct.pack("ii", 1, 0)


@pytest.fixture
def logged() -> Iterator[list[logging.LogRecord]]:
    """Whatever is logged anywhere; uvicorn's loggers do not hand on to the root."""
    found: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = found.append  # type: ignore[method-assign]
    loggers = [logging.getLogger(), logging.getLogger("uvicorn")]
    for logger in loggers:
        logger.addHandler(handler)
    yield found
    for logger in loggers:
        logger.removeHandler(handler)


def leave(address: str, path: str, sent: int, chunked: bool, at_once: bool) -> None:
    """Send a header and so many bytes of a body, and close, in order or at once."""
    with socket.create_connection((urlsplit(address).hostname, urlsplit(address).port)) as leaving:
        length = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % (len(BODY) + 1)
        part = BODY[:sent]
        leaving.sendall(b"POST /%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n" % (path.encode(), length))
        leaving.sendall(b"%x\r\n%s\r\n" % (len(part), part) if chunked and part else part)
        time.sleep(0.01)
        if at_once:
            leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)


@pytest.fixture(params=["page", "rewards"])
def server(request: pytest.FixtureRequest, bank: Any, tmp_path: Path) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Address, the path that tells whether it is well, and paths to send to."""
    if request.param == "page":
        with serve_ranker(counting_ranker(bank, tmp_path), tmp_path) as address:
            yield address, "/api/health", tuple(f"api/{path}" for path in PAGE)
    else:
        with serve(WordJudge()) as address:
            yield address, "/health", REWARDS


def test_a_client_that_leaves_while_it_sends_is_no_traceback(
    server: tuple[str, str, tuple[str, ...]], logged: list[logging.LogRecord]
) -> None:
    address, health, paths = server
    ways = list(itertools.product(paths, (0, len(BODY) // 2, len(BODY)), (False, True), (False, True)))
    with httpx.Client(base_url=address) as http:
        for path, sent, chunked, at_once in ways:
            before = len(logged)
            leave(address, path, sent, chunked, at_once)
            assert http.get(health).is_success
            assert len(logged) - before <= 1 and not any(record.exc_info for record in logged), (path, sent, chunked)
    assert len(ways) == 12 * len(paths)
