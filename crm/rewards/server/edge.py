"""What every request passes first. In: the application. Out: the same behind a key, counted, with a digest."""

from __future__ import annotations

import hmac
import time
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crm.rewards.server.measures import Measures

DIGEST = "X-Model-Digest"
OPEN = ("/health",)
"""Paths that want no key: whoever watches a server has none."""


class Edge:
    """``key`` is what a request has to bring as its bearer token; ``None`` lets everybody in."""

    def __init__(self, app: ASGIApp, *, key: str | None, digest: str, measures: Measures) -> None:
        self.app, self._measures = app, measures
        self._key = None if key is None else key.encode()
        self._digest = digest.encode("ascii", "replace").decode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 401."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[DIGEST] = self._digest
            await send(message)

        try:
            await (self.app if self._may(scope) else _refusal())(scope, receive, sending)
        finally:
            route = scope["route"].path if "route" in scope else "other"
            self._measures.request(route, status, time.perf_counter() - started)

    def _may(self, scope: Scope) -> bool:
        if self._key is None or scope["path"] in OPEN:
            return True
        brought: bytes = dict(scope["headers"]).get(b"authorization", b"")
        return hmac.compare_digest(brought, b"Bearer " + self._key)


def _refusal() -> Any:
    sentence = "key: missing or wrong; send the header Authorization: Bearer <key>"
    return JSONResponse({"error": sentence}, 401, headers={"WWW-Authenticate": "Bearer"})
