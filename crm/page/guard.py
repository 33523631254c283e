"""What every request passes through. In: an ASGI application. Out: the same behind limits, with security headers."""

from __future__ import annotations

from typing import Any

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 64 * 1024
"""Bytes of a request; files of responses have their own limit."""
UPLOADS = "/api/models"
"""End of the path that takes a file; a proxy may have put something before it."""
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
    """``per_minute`` requests that make work, for every address that asks."""

    def __init__(self, app: ASGIApp, *, per_minute: int, max_upload: int) -> None:
        self.app, self.max_upload = app, max_upload
        self._limit = RateLimitItemPerMinute(per_minute)
        self._limiter = MovingWindowRateLimiter(MemoryStorage())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 413 or 429."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, _with_headers(send))
            return
        sending = _with_headers(send)
        try:
            await self.app(scope, _bounded(receive, self._most(scope)), sending)
        except HTTPException as error:  # of `_bounded`, where whoever read the body has no answer of its own
            await JSONResponse({"error": error.detail}, error.status_code)(scope, receive, sending)
        except ClientDisconnect:  # nobody is there to be told
            return

    def _most(self, scope: Scope) -> int:
        """Bytes that the body of a request may have."""
        return self.max_upload if scope["path"].endswith(UPLOADS) else MAX_BODY

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        path = scope["path"]
        limit = self._most(scope)
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not length.isdigit() or int(length) > limit:
            return _too_large(limit)
        address = (scope.get("client") or ("unknown", 0))[0]
        if COUNTED in path and not self._limiter.hit(self._limit, address):
            sentence = f"more than {self._limit.amount} requests a minute; wait a little"
            return JSONResponse({"error": sentence}, status_code=429, headers={"Retry-After": "60"})
        return None


def _too_large(limit: int) -> JSONResponse:
    return JSONResponse({"error": f"body: larger than {limit:,} bytes"}, status_code=413)


def _bounded(receive: Receive, limit: int) -> Receive:
    """A body that came without a length ends here when it turns out too long."""
    got = 0

    async def bounded() -> Message:
        nonlocal got
        message = await receive()
        got += len(message.get("body", b""))
        if got > limit:
            raise HTTPException(413, f"body: larger than {limit:,} bytes")
        return message

    return bounded


def _with_headers(send: Send) -> Send:
    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
        await send(message)

    return sending
