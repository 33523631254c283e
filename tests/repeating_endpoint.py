"""A chat endpoint on 127.0.0.1 that repeats what it is asked."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def repeating_endpoint(refused_once: str) -> Iterator[tuple[str, Counter[str]]]:
    """Its address, and how often it was asked what. Texts with ``refused_once`` are refused the first time."""
    asked: Counter[str] = Counter()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            text = body["messages"][-1]["content"]
            asked[text] += 1
            fails = refused_once in text and asked[text] == 1
            reply = {"choices": [{"message": {"role": "assistant", "content": f"re: {text}"}, "finish_reason": "stop"}]}
            raw = json.dumps(reply).encode()
            self.send_response(400 if fails else 200)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
    finally:
        server.shutdown()
        server.server_close()
