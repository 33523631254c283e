"""Chat endpoints on 127.0.0.1: one that answers as its test says, one that repeats what it is asked."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, str]
"""Status and body."""


def completion(content: str | None, finish: str = "stop", **message: Any) -> Answer:
    """A chat completion of 42 tokens."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
    return 200, json.dumps({"choices": [choice], "usage": {"prompt_tokens": 30, "completion_tokens": 12}})


@contextmanager
def chat_endpoint(answer: Callable[[dict[str, Any], dict[str, str]], Answer]) -> Iterator[str]:
    """Its address; ``answer`` gets the body and the headers of a request, in the thread of that request."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, text = answer(body, {name.lower(): value for name, value in self.headers.items()})
            raw = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json" if text[:1] in ("{", "[") else "text/html")
            self.send_header("Content-Length", str(len(raw)))
            if status == 307:
                self.send_header("Location", "/v1/elsewhere")
            if status in (429, 500):
                self.send_header("retry-after-ms", "1")
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def repeating_endpoint(refused_once: str, reply: str = "re: {}") -> Iterator[tuple[str, Counter[str]]]:
    """Its address, and how often it was asked what. Texts with ``refused_once`` are refused the first time."""
    asked: Counter[str] = Counter()

    def answer(body: dict[str, Any], _headers: dict[str, str]) -> Answer:
        text = body["messages"][-1]["content"]
        asked[text] += 1
        return (400, "{}") if refused_once in text and asked[text] == 1 else completion(reply.replace("{}", text))

    with chat_endpoint(answer) as address:
        yield address, asked
