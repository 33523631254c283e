"""Limit requests before an ASGI application, and put security headers on its responses."""

from __future__ import annotations

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter
from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crm.web import BodyLimit

MAX_BODY = 64 * 1024
"""Bytes of a request."""
COUNTED = "/api/"
"""In paths of requests that cost work; files of the page are not counted."""
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
"""Nothing is loaded from elsewhere: a picture in a text does not call its server."""


class Guard:
    """At most ``per_minute`` counted requests of an address, of at most `MAX_BODY` bytes each."""

    def __init__(self, app: ASGIApp, *, per_minute: int) -> None:
        self.app = BodyLimit(app, MAX_BODY)
        self._limit = RateLimitItemPerMinute(per_minute)
        self._limiter = MovingWindowRateLimiter(MemoryStorage())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 413 or 429."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        app: ASGIApp = self.app
        if COUNTED in scope["path"] and not self._limiter.hit(self._limit, (scope["client"] or ["unknown"])[0]):
            error = f"more than {self._limit.amount} requests a minute; wait a little"
            app = JSONResponse({"error": error}, 429, headers={"Retry-After": "60"})
        return await app(scope, receive, with_headers)
