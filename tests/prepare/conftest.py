"""A preparation on few rows, and a chat endpoint whose replies a test chooses."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from crm.config import compose
from crm.data.simulation.arena import simulate
from crm.prepare.run import run_prepare
from crm.schema import to_json

Prepare = Callable[..., Path]


@pytest.fixture(scope="session")
def votes_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 simulated votes with criteria and topics, as records."""
    path = tmp_path_factory.mktemp("votes") / "votes.jsonl"
    rows = simulate(seed=3, train=300, validation=0, suite=0).train
    path.write_text("".join(to_json(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def prepare(tmp_path: Path) -> Prepare:
    """``prepare("data=...", ...)`` prepares into ``tmp_path/data`` without public sets, and returns the folder."""
    return preparing(tmp_path)


def preparing(folder: Path) -> Prepare:
    def run(*overrides: str, out: str = "data", root: str = "nowhere") -> Path:
        words = [f"out='{folder / out}'", f"data.root='{folder / root}'", "progress=false", *overrides]
        return run_prepare(compose("prepare", words))

    return run


class Endpoint:
    """``answer`` maps the text of a request to the reply's text; ``None`` is a server error. ``asked`` keeps them."""

    def __init__(self, answer: Callable[[str], dict[str, Any] | None]) -> None:
        self.answer = answer
        self.asked: list[str] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                text = "\n".join(turn["content"] for turn in body["messages"])
                endpoint.asked.append(text)
                reply = endpoint.answer(text)
                message = {"role": "assistant", "content": json.dumps(reply)}
                data = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode()
                self.send_response(200 if reply is not None else 500)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def settings(self) -> list[str]:
        """Overrides that make it the annotator."""
        url = f"http://127.0.0.1:{self._server.server_port}/v1"
        return ["annotator=openai", f"annotator.base_url={url}", "annotator.model=fake", "annotator.attempts=1"]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def make_endpoint() -> Iterator[Callable[..., Endpoint]]:
    opened: list[Endpoint] = []

    def make(answer: Callable[[str], dict[str, Any] | None]) -> Endpoint:
        opened.append(Endpoint(answer))
        return opened[-1]

    yield make
    for endpoint in opened:
        endpoint.close()
