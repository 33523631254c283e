"""A chat endpoint on 127.0.0.1 that answers each request as the test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

Sent = tuple[int, dict[str, str], str]
"""Status, headers and body."""


class ChatServer(ThreadingHTTPServer):
    """``answer(material, body)`` decides each reply; ``material`` is the JSON object of the user's turn."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: Callable[[dict[str, Any], dict[str, Any]], Sent] = lambda _material, _body: said("Verdict: A")
        self.bodies: list[dict[str, Any]] = []
        self.keys: set[str] = set()
        self.lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ChatServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.bodies.append(body)
            self.server.keys.add(self.headers.get("Authorization", ""))
            status, headers, text = self.server.answer(json.loads(body["messages"][-1]["content"]), body)
        content = text.encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Silent."""


def said(text: str | None, finish: str = "stop", usage: tuple[int, int] | None = (30, 12), **choice: Any) -> Sent:
    """A completion with this text."""
    message = {"role": "assistant", "content": text, "refusal": choice.pop("refusal", None)}
    row: dict[str, Any] = {"choices": [{"message": message, "finish_reason": finish, **choice}]}
    if usage:
        row["usage"] = {"prompt_tokens": usage[0], "completion_tokens": usage[1]}
    return 200, {}, json.dumps(row)


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    server = ChatServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="session")
def completion_of() -> Callable[..., Sent]:
    """Makes what the server sends for a reply of the model."""
    return said
