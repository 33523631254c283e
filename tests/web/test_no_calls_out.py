"""While they serve, neither the page nor the reward server opens a connection to any address but this machine's."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.page.browsing import serve_ranker
from tests.page.conftest import small_bank
from tests.page.counting import counting_ranker
from tests.rewards.serving import WordJudge, group, serve

EVENTS = ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname")
_open: list[list[str]] = []


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if _open and event in EVENTS:
        address = arguments[1] if event.startswith(("socket.connect", "socket.send")) else arguments[0]
        host = address[0] if isinstance(address, tuple) else address
        if isinstance(host, str | bytes) and not _own(host if isinstance(host, str) else host.decode()):
            _open[-1].append(f"{event} {address!r}")


def _own(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.startswith("/")  # a socket of the file system


sys.addaudithook(_heard)  # for ever, but it hears only inside of `calls_out`


@contextmanager
def calls_out() -> Iterator[list[str]]:
    """Names that are looked up and addresses that are connected to, by whatever thread, but for this machine."""
    found: list[str] = []
    _open.append(found)
    try:
        yield found
    finally:
        _open.remove(found)


def test_a_call_out_is_heard() -> None:
    with calls_out() as found:
        with socket.socket() as made, pytest.raises(OSError):
            made.settimeout(0.01)
            made.connect(("192.0.2.1", 9))  # an address for documents, where nobody is
        with pytest.raises(OSError):
            socket.getaddrinfo("no.such.name.invalid", 80)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
            made.connect(("127.0.0.1", 9))
    assert [line.split()[0] for line in found] == ["socket.connect", "socket.getaddrinfo"]


URLS = [
    "http://192.0.2.1/x", "https://example.org", "http://169.254.169.254/latest/meta-data", "http://[2001:db8::1]/",
    "file:///etc/passwd", "//example.org/x.js", "http://2130706433@example.org", "ftp://example.org/x",
]  # fmt: skip


def test_the_page_calls_nobody(tmp_path: Path) -> None:
    """Every route, with addresses in each text that people may send."""
    bank, asked = small_bank(len(URLS)), 0
    served = serve_ranker(counting_ranker(bank, tmp_path), tmp_path)
    with calls_out() as found, served as address, httpx.Client(base_url=address, timeout=30) as http:
        for url in URLS:
            mine: dict[str, Any] = {"criteria": [url], "dislikes": [f"not {url}"]}
            calls: list[tuple[str, Any]] = [("rank", mine), ("compare", {"first": mine, "second": mine})]
            calls += [("why", {"profile": mine, "model": "wordy"}), ("picks", {"profile": mine})]
            calls += [("sentences", {"profile": mine, "model": "wordy", "query_id": "q0"})]
            calls += [("rank", {"base_url": url}), ("rank", {"baseline": url}), ("rank", {"about": url})]
            answers = [http.post(f"/api/{path}", json=body) for path, body in calls]
            answers += [http.get(f"/api/export/{kind}", params={"criteria": url}) for kind in ("csv", "json")]
            answers += [http.get(path, params={"url": url}) for path in ("/", "/api/bank", "/api/queries")]
            assert answers[0].status_code == 200 and all(answer.status_code < 500 for answer in answers)
            asked += len(answers)
    assert found == []


def test_the_reward_server_calls_nobody() -> None:
    asked = 0
    with calls_out() as found, serve(WordJudge()) as address, httpx.Client(base_url=address) as http:
        for url in URLS:
            calls: list[tuple[str, Any]] = [("v1/score", {"groups": [group(url, criteria=[url])], "model": url})]
            calls += [("v1/score", {"groups": [group(url, criteria=[url])]}), ("v1/rank", group(url, "a"))]
            calls += [("v1/score", {"base_url": url}), ("classify", {"messages": [{"role": "user", "content": url}]})]
            calls += [("get_reward", {"query": [url], "prompts": [url], "labels": [json.dumps({"criteria": [url]})]})]
            answers = [http.post(f"/{path}", json=body) for path, body in calls]
            answers += [http.get(path, params={"url": url}) for path in ("/health", "/openapi.json")]
            assert answers[1].status_code == 200 and all(answer.status_code < 500 for answer in answers)
            asked += len(answers)
    assert found == []
