"""What the HTTP servers share: request bodies and their mistakes, host names, a body limit, and uvicorn."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

import uvicorn
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crm.schema import RecordError

OWN = ("localhost", "127.0.0.1", "::1")


class Body(BaseModel):
    """A request without other fields; the text below a field describes it in ``/openapi.json``."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


def request_mistake(error: Any) -> str:
    """The first of FastAPI's errors as a sentence: the field, such as ``groups[0].messages``, and what is wrong."""
    first = error.errors()[0]
    if first["type"] == "json_invalid" or isinstance(first["input"], bytes):
        return "body: expected JSON in UTF-8, with the header Content-Type: application/json"
    place, *parts = first["loc"]
    if first["type"] == "value_error" and not parts:
        return str(first["ctx"]["error"])
    return str(RecordError.of([first | {"loc": parts or [place]}]))


class KnownHosts(TrustedHostMiddleware):
    """Answer to names of this machine and ``hosts``, with 400 to others; without ``hosts`` beyond loopback, to all.

    Otherwise a web site could point its own name at a visitor's machine and read what a server there answers (DNS
    rebinding).
    """

    def __init__(self, app: ASGIApp, *, listening: str, hosts: Sequence[str] = ()) -> None:
        every = not hosts and listening not in OWN and not listening.startswith("127.")
        names = [f"[{name}]" if ":" in name else name for name in (*OWN, listening, *hosts)]
        super().__init__(app, ["*"] if every else names, www_redirect=False)


class BodyLimit:
    """Answer 413 where the body of a request is larger than ``limit`` bytes, whatever a header says."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self.app, self._limit = app, limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; reading too much of it raises."""
        got = 0

        async def bounded() -> Message:
            nonlocal got
            message = await receive()
            got += len(message.get("body", b""))
            if got > self._limit:
                raise HTTPException(413, f"body: larger than {self._limit:,} bytes")
            return message

        await self.app(scope, bounded, send)


def bound(host: str, port: int) -> socket.socket:
    """A socket at the address, before a model is loaded. Raises ``ValueError`` where it is taken."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise ValueError(f"host={host} port={port}: cannot be used ({error.strerror or error}); take another") from None


OPTIONS: dict[str, Any] = {
    "ws": "none",
    "log_level": "warning",
    "limit_concurrency": 1000,
    "timeout_keep_alive": 60,  # by default uvicorn and httpx both close at 5 s, and a request in between is lost
}
"""Of uvicorn."""


def serve(app: ASGIApp, listening: socket.socket, *, grace_s: int) -> None:
    """Answer until interrupted; then requests have ``grace_s`` seconds."""
    uvicorn.Server(uvicorn.Config(app, timeout_graceful_shutdown=grace_s, **OPTIONS)).run([listening])
