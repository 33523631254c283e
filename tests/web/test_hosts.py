"""Who may ask a server, by the names in their headers: a table by hand, and both servers as they are started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from crm.config import compose
from crm.page.run import make_app
from crm.web.hosts import KnownHosts
from tests.page.counting import counting_ranker
from tests.rewards.serving import WordJudge, app_of
from tests.running_app import running

LOCAL, OPEN, NAMED = ("127.0.0.1", ()), ("192.168.1.7", ()), ("192.168.1.7", ("Board.example.org", "other.example.org"))
ALLOWED = [
    (LOCAL, "localhost", None), (LOCAL, "localhost:7860", None), (LOCAL, "127.0.0.1:1", None),
    (LOCAL, "[::1]:7860", None), (LOCAL, "LocalHost:80", "http://localhost"),
    (LOCAL, "127.0.0.1:7860", "http://127.0.0.1:7860"), (("::1", ()), "[::1]:80", "http://[::1]"),
    (("localhost", ()), "127.0.0.1", None), (("127.0.0.2", ()), "127.0.0.2", None),
    (OPEN, "anything.example", None), (OPEN, "anything.example", "https://anything.example"), (OPEN, "", None),
    (OPEN, "192.168.1.7:7860", "http://192.168.1.7:7860"), (OPEN, "a.example:443", "https://a.example"),
    (NAMED, "board.example.org", "https://board.example.org"), (NAMED, "localhost:7860", None),
    (NAMED, "127.0.0.1:7860", "https://board.example.org"),  # as proxies ask that put their own Host
    (NAMED, "board.example.org", "https://other.example.org:8443"),
    (("127.0.0.1", ("board.example.org",)), "board.example.org:80", "http://board.example.org"),
]  # fmt: skip
HOSTS = [
    "evil.example", "evil.example:7860", "127.0.0.1.evil.example", "localhost.evil.example", "evil.example@127.0.0.1",
    "127.0.0.1@evil.example", "", "[::1", "::1", "localhost:x", "0.0.0.0:7860", "http://localhost", "évil", "[::2]",
    "localhost, evil.example", "localhost,localhost", "127.0.0.1:7860:1",
]  # fmt: skip
ORIGINS = [
    "null", "http://evil.example", "http://127.0.0.1:3000", "https://127.0.0.1", "http://localhost:7860", "file://",
    "127.0.0.1:7860", "http://127.0.0.1:7860@evil.example", "http://127.0.0.1:7860/x", "chrome-extension://abcdef",
    "http://127.0.0.1:7860, http://evil.example", "http://127.0.0.1:7860 ,null",
]  # fmt: skip
REFUSED = [
    *[(LOCAL, host, None) for host in HOSTS],
    *[(LOCAL, "127.0.0.1:7860", origin) for origin in ORIGINS],
    (OPEN, "a.example", "https://b.example"), (OPEN, "", "http://a.example"), (OPEN, "a b", "http://a b"),
    (OPEN, "a.example:8080", "http://a.example"), (NAMED, "evil.example", "https://board.example.org"),
    (NAMED, "board.example.org", "https://evil.example"), (NAMED, "board.example.org", "null"), (NAMED, "", None),
]  # fmt: skip


def asked(server: tuple[str, tuple[str, ...]], *headers: tuple[str, str | None]) -> httpx.Response:
    api = FastAPI()
    api.get("/{path}")(lambda path: path)
    sent = [(name.encode(), value.encode("latin-1")) for name, value in headers if value is not None]
    listening, hosts = server
    client = TestClient(KnownHosts(api, listening=listening, hosts=hosts), headers={"Host": ""})
    return client.get("/x", headers=sent)


def test_who_may_ask() -> None:
    for server, host, origin in ALLOWED:
        assert asked(server, ("Host", host), ("Origin", origin)).status_code == 200, (server, host, origin)


def test_who_may_not_is_told_which_setting_would_change_it() -> None:
    for server, host, origin in REFUSED:
        answer = asked(server, ("Host", host), ("Origin", origin))
        assert answer.status_code == 403 and "hosts=[" in answer.json()["error"], (server, host, origin)
        assert answer.json()["error"].startswith("origin: " if origin and server != NAMED else ("host: ", "origin: "))


def test_a_header_that_comes_twice_is_none() -> None:
    """One for a proxy and one for the server is an old trick."""
    own = ("Host", "localhost")
    assert asked(LOCAL, own, ("Origin", "http://localhost")).status_code == 200
    assert asked(LOCAL, own, own).status_code == 403
    assert asked(LOCAL, own, ("Origin", "http://localhost"), ("Origin", "http://localhost")).status_code == 403


@pytest.mark.parametrize(
    ("command", "words", "sentence"),
    [
        (
            "app",
            "hosts=[http://x.example]",
            "hosts='http://x.example': expected names such as .*without scheme and port",
        ),
        ("serve", "hosts=['x.example:80']", "hosts='x.example:80': expected names"),
        ("app", "hosts=['*']", r"hosts='\*': expected names"),
        ("app", "proxy=nginx", "proxy='nginx': expected an address such as 127.0.0.1, or a network"),
        ("app", "proxy=10.0.0.1/8", "proxy='10.0.0.1/8': expected an address"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(command: str, words: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=sentence):
        compose(command, ["checkpoint=none", words], tmp_path)
    compose("app", ["checkpoint=none", "hosts=[x.example,'2001:db8::1']", "proxy=172.17.0.0/16"], tmp_path)


@pytest.fixture(params=["page", "rewards"])
def address(request: pytest.FixtureRequest, tmp_path: Path, bank: Any) -> Any:
    """Each server with the settings of its command, on a loopback address."""
    if request.param == "page":
        ranker = counting_ranker(bank, tmp_path)
        app: Any = make_app(ranker, "late", compose("app", ["checkpoint=none", "root_path=/board"], tmp_path))
    else:
        app = KnownHosts(app_of(WordJudge()), listening=compose("serve", ["checkpoint=none"], tmp_path).host)
    with running(app) as found:
        yield found


def test_both_servers_refuse_other_names_and_sites_by_default(address: str) -> None:
    with httpx.Client(base_url=address) as http:
        routes = http.get("/openapi.json").json()["paths"]
        calls = [(method.upper(), path) for path, methods in routes.items() for method in methods]
        for method, path in calls:
            for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Origin": "null"}):
                answer = http.request(method, path, headers=headers, content=b"{}")
                assert answer.status_code == 403 and "hosts=[" in answer.json()["error"], (method, path, headers)
            assert "hosts=" not in http.request(method, path, headers={"Origin": address}).text, (method, path)
    assert len(calls) >= 6
