"""An HTTP server of this project in a thread."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from crm.web import OPTIONS


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def running(app: Any, grace: int = 1) -> Iterator[str]:
    """The address, while the server runs; ``grace`` are the seconds that requests have when it is stopped."""
    port = free_port()
    config = uvicorn.Config(app, port=port, timeout_graceful_shutdown=grace, **OPTIONS)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(20)
