"""Where a server listens, and its run. In: an ASGI application, an address. Out: answers, until it is stopped."""

from __future__ import annotations

import socket

import uvicorn
from starlette.types import ASGIApp

from crm.web import connections


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
    options = {"timeout_graceful_shutdown": grace_s, "root_path": root_path, **connections.options(proxy)}
    uvicorn.Server(uvicorn.Config(app, **options)).run([listening])


def _unusable(host: str, port: int, error: OSError) -> ValueError:
    return ValueError(f"host={host} port={port}: cannot be used ({error.strerror or error}); take another")
