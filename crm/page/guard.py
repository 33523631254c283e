"""Put limits before an ASGI application, and security headers on its answers."""

from __future__ import annotations

from typing import Any

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter
from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from crm.web.body_limit import BodyLimit

MAX_BODY = 64 * 1024
"""Bytes of a request."""
COUNTED = "/api/"
"""In paths of requests that make work; those that fetch parts of the page are not counted."""
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
"""Nothing is loaded from elsewhere, so that a text with a picture in it tells nobody who reads it."""


class Guard:
    """``per_minute`` requests that make work, for every address that asks, of at most `MAX_BODY` bytes."""

    def __init__(self, app: ASGIApp, *, per_minute: int) -> None:
        self.app = BodyLimit(app, lambda _: MAX_BODY)
        self._limit = RateLimitItemPerMinute(per_minute)
        self._limiter = MovingWindowRateLimiter(MemoryStorage())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 413 or 429."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        await (self._refusal(scope) or self.app)(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        address = (scope.get("client") or ("unknown", 0))[0]
        if COUNTED in scope["path"] and not self._limiter.hit(self._limit, address):
            sentence = f"more than {self._limit.amount} requests a minute; wait a little"
            return JSONResponse({"error": sentence}, status_code=429, headers={"Retry-After": "60"})
        return None


def _with_headers(send: Send) -> Send:
    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
        await send(message)

    return sending
