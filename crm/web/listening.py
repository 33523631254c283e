"""Where a server listens, and its run. In: an ASGI application, an address. Out: answers, until it is stopped."""

from __future__ import annotations

import socket
from typing import Any

import uvicorn
from starlette.types import ASGIApp

KEEP_S = 60
"""Seconds that an idle connection is kept.

By default both uvicorn and httpx close at 5 seconds, and a request that crosses the closing on its way is lost.
"""
MAX_CONNECTIONS = 1000
"""At a time; a request on one more is answered 503."""


def options(proxy: str | None = None) -> dict[str, Any]:
    """What uvicorn is started with, beside address and port.

    Whoever asks from ``proxy``, an address or network, is believed to ask for the address in ``X-Forwarded-For``. By
    default uvicorn believes everybody on this machine.
    """
    return {
        "ws": "none",
        "log_level": "warning",
        "limit_concurrency": MAX_CONNECTIONS,
        "timeout_keep_alive": KEEP_S,
        "proxy_headers": proxy is not None,
        "forwarded_allow_ips": proxy or "",
    }


def bound(host: str, port: int) -> socket.socket:
    """A socket at the address, so that a taken one is told before a model is loaded for nothing.

    Raises ``ValueError``.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
    except OSError as error:
        raise _unusable(host, port, error) from None
    return made


def serve(
    app: ASGIApp, listening: socket.socket, *, grace_s: int, root_path: str = "", proxy: str | None = None
) -> None:
    """Answer until interrupted; then requests have ``grace_s`` seconds to end.

    A ``proxy``, an address or network, is believed who asks; ``root_path`` is what it takes off every path. Raises
    ``ValueError`` where another server has begun to listen at the address meanwhile.
    """
    try:
        listening.listen()
    except OSError as error:
        host, port = listening.getsockname()[:2]
        raise _unusable(host, port, error) from None
    config = uvicorn.Config(app, timeout_graceful_shutdown=grace_s, root_path=root_path, **options(proxy))
    uvicorn.Server(config).run([listening])


def _unusable(host: str, port: int, error: OSError) -> ValueError:
    return ValueError(f"host={host} port={port}: cannot be used ({error.strerror or error}); take another")
