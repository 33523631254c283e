"""What tests of files share: a server process, what it must never say, and every way to name a file to it."""

from __future__ import annotations

import json
import os
import re
import socketserver
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.page.test_app_process import ROOT, start, wait_until_up

FILE_SECRET, ENVIRONMENT_SECRET = "what-the-file-holds-5e1f", "what-the-environment-holds-a90c"
META = {"_type": "gradio.FileData"}
FORMS = (
    lambda at: {"path": at, "meta": META},
    lambda at: {"path": at, "url": at, "meta": META},
    lambda at: {"path": "x", "url": at, "meta": META},
    lambda at: [{"path": at, "meta": META}],
    lambda at: {"data": [[{"path": at, "meta": META}]], "headers": ["x"], "metadata": None},
    lambda at: {"a": {"b": [[{"path": at, "orig_name": "x.svg", "mime_type": "image/svg+xml", "meta": META}]]}},
    lambda at: {"path": {"path": at, "meta": META}, "meta": META},
    lambda at: {"path": at, "is_stream": True, "meta": META},
)
"""Ways to put a file into an input."""
CHECKED = ("/", "/config", "/theme.css", "/gradio_api/info", "/gradio_api/startup-events", "/gradio_api/app_id",
           "/openapi.json", "/gradio_api/openapi.json", "/manifest.json", "/monitoring", "/gradio_api/runs",
           "/gradio_api/user", "/gradio_api/token", "/robots.txt", "/favicon.ico", "/?page=x", "/config?deep_link=x",
           "/gradio_api/deep_link?session_hash=x", "/svelte/x", "/static/x", "/assets/x", "/nothing")  # fmt: skip


@dataclass
class Victim:
    """A server process; every answer is looked through, and what it says too much is kept in ``leaks``."""

    address: str
    folder: Path
    hits: int = 0
    asked: int = 0
    leaks: list[tuple[str, str]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.http = httpx.Client(base_url=self.address, timeout=20)
        self.never = (FILE_SECRET, ENVIRONMENT_SECRET, str(self.folder), str(ROOT), str(Path.home()) + "/",
                      "site-packages", sys.prefix)  # fmt: skip

    def ask(self, method: str, path: str, **content: Any) -> httpx.Response:
        answer = self.http.request(method, path, **content)
        self.asked += 1
        self.look(f"{method} {path} {str(content)[:150]}", f"{answer.headers}\n{answer.text}")
        return answer

    def look(self, what: str, text: str) -> None:
        self.leaks += [(word, what) for word in self.never if word in text]
        self.said.append(text)

    def events(self, session: str) -> None:
        """Read what the server has to say of a session's calls."""
        with self.http.stream("GET", f"/gradio_api/queue/data?session_hash={session}") as stream:
            self.asked += 1
            for line in stream.iter_lines():
                self.look(f"events of {session}", line)
                if "close_stream" in line:
                    return

    def mentioned(self) -> set[str]:
        """Everything in the answers so far that looks like a file."""
        text = "\n".join(self.said)
        found = set(re.findall(r'"(?:path|url)":\s*"([^"]+)"', text)) | set(
            re.findall(r"/[\w./-]*gradio/[\w./-]+", text)
        )
        return {name.split("file=")[-1] for name in found}


@contextmanager
def victim(folder: Path, *words: str) -> Iterator[Victim]:
    """A server whose folders, environment and a file beside it hold secrets."""
    temporary = folder / "temporary"
    (temporary / "gradio").mkdir(parents=True)
    (folder / "secret.txt").write_text(FILE_SECRET, encoding="utf-8")
    (temporary / "gradio" / "link.txt").symlink_to(folder / "secret.txt")
    environment = {**os.environ, "TMPDIR": str(temporary), "A_KEY_OF_THE_TEST": ENVIRONMENT_SECRET}
    usual = ("judge=length", "bank.queries_per_topic=1", "requests_per_minute=1000000")
    process, address = start(folder, *usual, *words, env=environment)
    try:
        wait_until_up(address)
        yield Victim(address, folder)
    finally:
        process.kill()
        process.wait()


@contextmanager
def listener(found: list[Victim]) -> Iterator[str]:
    """A server of the test that nobody has a reason to ask; it counts who does."""

    class Count(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            found[0].hits += 1

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Count) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def places(folder: Path, other: str) -> list[str]:
    """Files and addresses that are none of a visitor's business, however written."""
    secret, uploads = folder / "secret.txt", folder / "temporary" / "gradio"
    return [
        "/proc/self/environ", str(secret), str(uploads / "link.txt"), f"{uploads}/../../secret.txt",
        f"{uploads}/x/../../../secret.txt", "../" * 12 + str(secret)[1:], "/etc/passwd", f"file://{secret}",
        "file:///proc/self/environ", f"http://{other}/x", f"http://localhost:{other.split(':')[1]}/x",
        f"http://0x7f000001:{other.split(':')[1]}/x", "http://169.254.169.254/latest/meta-data/",
    ]  # fmt: skip


def calls(config: dict[str, Any], at: list[str]) -> Iterator[tuple[int, list[Any]]]:
    """Every input of every function of the page with every place, and every form at every function."""
    turn = 0
    for function in config["dependencies"]:
        size = len(function["inputs"])
        for given in range(max(1, size)):
            for place in at:
                yield (
                    function["id"],
                    [FORMS[turn % len(FORMS)](place) if n == given else None for n in range(max(1, size))],
                )
                turn += 1
        for form in FORMS:
            yield function["id"], [form(at[0])] + [None] * (size - 1)


def as_body(function: int, data: list[Any], session: str) -> bytes:
    return json.dumps({"data": data, "fn_index": function, "session_hash": session, "trigger_id": None}).encode()
