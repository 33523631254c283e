"""Half-open connections, headers and bodies that never end, answers that nobody reads: the server goes on."""

from __future__ import annotations

import contextlib
import http.client
import resource
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from crm.judges.controls import LengthJudge
from crm.judges.judge import Asked, Reading
from crm.leaderboard.bank.simulated import simulate_bank
from tests.page.browsing import serve
from tests.page.test_app_process import start, wait_until_up

pytestmark = pytest.mark.slow

DESCRIPTORS, FLOOD = 256, 300
STEPS = 400
"""Of a drip, 0.05 s each: far more than any deadline of these tests."""


def connect(address: str, receives: int = 0) -> socket.socket:
    made = socket.socket()
    if receives:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receives)
    made.settimeout(20)
    made.connect((urlsplit(address).hostname, urlsplit(address).port))
    return made


def dripped(connection: socket.socket, piece: bytes) -> bytes | None:
    """What the server says when it ends the connection while pieces drip in; ``None`` where it never does."""
    connection.settimeout(0.05)
    said = b""
    for _ in range(STEPS):
        try:
            connection.sendall(piece)
            got = connection.recv(65536)
            if not got:
                return said
            said += got
        except TimeoutError:
            continue
        except OSError:
            return said
    return None


def test_a_flood_of_half_open_connections_passes(tmp_path: Path) -> None:
    """More of them than the process has descriptors; who was connected before is served all the time."""

    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))

    process, address = start(tmp_path, "judge=length", "bank.queries_per_topic=1", preexec_fn=few)
    flood: list[socket.socket] = []
    try:
        wait_until_up(address)
        before = http.client.HTTPConnection(urlsplit(address).netloc, timeout=20)
        for number in range(FLOOD):
            flood.append(connect(address))
            flood[-1].sendall(b"POST /api/rank HTTP/1.1\r\nHost: localhost\r\n")
            if number % 30 == 0:
                before.request("GET", "/api/health")
                assert before.getresponse().read().startswith(b'{"status":"ok"')
        end = time.monotonic() + 60
        while True:  # the flood stays open on our side
            assert time.monotonic() < end, "the server does not serve again"
            try:
                if httpx.get(f"{address}/api/health", timeout=5).is_success:
                    break
            except httpx.HTTPError:
                time.sleep(0.5)
        assert process.poll() is None
    finally:
        for connection in flood:
            connection.close()
        process.kill()
        process.wait()


@pytest.fixture
def short_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEADER_S", "BODY_S", "UPLOAD_S", "READ_S"):
        monkeypatch.setattr(f"crm.web.connections.{name}", 0.5)


@pytest.fixture
def hasty(tmp_path: Path, short_deadlines: None) -> Iterator[str]:
    """A server with short deadlines."""
    with serve(simulate_bank(seed=1, queries_per_topic=1).bank, LengthJudge(), tmp_path) as address:
        yield address


@pytest.fixture
def slow(tmp_path: Path, short_deadlines: None) -> Iterator[str]:
    """As `hasty`, with a judge that takes 3 seconds for a ranking."""
    with serve(simulate_bank(seed=1, queries_per_topic=1).bank, SlowJudge(), tmp_path) as address:
        yield address


class SlowJudge(LengthJudge):
    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        for asked in comparisons:
            time.sleep(0.01)
            yield from super().read([asked])


HEAD = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n"


def test_a_header_that_drips_is_cut(hasty: str) -> None:
    with connect(hasty) as silent, connect(hasty) as first:
        assert dripped(first, b"x") is not None
        assert silent.recv(1) == b""
    with connect(hasty) as later:
        later.sendall(b"GET /api/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"200 OK" in later.recv(65536)
        assert dripped(later, b"x") is not None, "of a second request, too"


def test_a_connection_is_kept_for_longer_than_clients_keep_theirs(tmp_path: Path) -> None:
    """httpx and many others ask again within 5 seconds; a server that closes just then loses the request."""
    with serve(simulate_bank(seed=1, queries_per_topic=1).bank, LengthJudge(), tmp_path) as address:
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=20)
        with contextlib.closing(connection):
            for rest in (6.5, 0):
                connection.request("GET", "/api/health")
                answer = connection.getresponse()
                assert answer.status == 200 and answer.read()
                kept = connection.sock
                assert kept is not None, "the server said that it closes"
                time.sleep(rest)


@pytest.mark.parametrize("path", [b"/api/rank", b"/api/why", b"/api/models?name=n&file=x.jsonl"])
def test_a_body_that_drips_is_408(hasty: str, path: bytes) -> None:
    with connect(hasty) as connection:
        connection.sendall(HEAD % path)
        said = dripped(connection, b"x")
        assert said is not None and b" 408 " in said and b"not complete within 0.5 seconds" in said


@pytest.mark.parametrize("path", [b"/nothing", b"/api/bank"])
def test_a_body_that_nobody_reads_is_cut_too(hasty: str, path: bytes) -> None:
    with connect(hasty) as connection:
        connection.sendall(HEAD % path)
        said = dripped(connection, b"x")
        assert said is not None and b"HTTP/1.1 40" in said


def test_who_does_not_read_is_cut(hasty: str) -> None:
    """Two thousand answers are asked for; after the deadline most of them are not there any more."""
    size = len(httpx.get(f"{hasty}/static/main.js").content)
    with connect(hasty, receives=4096) as connection:
        connection.sendall(b"GET /static/main.js HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2000)
        time.sleep(3)
        got = 0
        try:
            while piece := connection.recv(65536):
                got += len(piece)
        except OSError:
            pass
        assert 0 < got < 1800 * size


def test_deadlines_do_not_touch_those_who_wait(slow: str) -> None:
    """A ranking that is being made is older than every deadline, and what is sent in time is served."""
    with httpx.stream("POST", f"{slow}/api/rank", json={}, timeout=5) as stream:
        time.sleep(1.5)
        assert httpx.get(f"{slow}/api/health").is_success
        assert '"complete": true' in stream.read().decode().splitlines()[-1]


@pytest.mark.parametrize("allowed", [256, 1024, 65536, resource.RLIM_INFINITY])
def test_connections_and_those_on_their_way_fit_into_the_descriptors(
    monkeypatch: pytest.MonkeyPatch, allowed: int
) -> None:
    from crm.web import connections

    monkeypatch.setattr(resource, "getrlimit", lambda _: (allowed, allowed))
    most, backlog = connections.max_connections(), connections.options()["backlog"]
    assert most >= 100 and backlog >= 4
    if allowed != resource.RLIM_INFINITY:
        assert most + 4 * backlog + connections.OWN_FILES <= allowed
