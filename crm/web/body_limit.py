"""No body larger than a limit. In: an ASGI application. Out: the same; a larger body is answered with 413."""

from __future__ import annotations

from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class BodyLimit:
    """``most`` says how many bytes the body of a request to a path may have."""

    def __init__(self, app: ASGIApp, most: Callable[[str], int]) -> None:
        self.app, self._most = app, most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 413: at once where its header tells the length, else when it is exceeded."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        limit = self._most(scope["path"])
        length = dict(scope["headers"]).get(b"content-length", b"0")
        if not length.isdigit() or int(length) > limit:
            await JSONResponse({"error": _sentence(limit)}, 413)(scope, receive, send)
            return
        try:
            await self.app(scope, _bounded(receive, limit), send)
        except HTTPException as error:  # of `_bounded`, where whoever read the body has no answer of its own
            await JSONResponse({"error": error.detail}, error.status_code)(scope, receive, send)
        except ClientDisconnect:  # nobody is there to be told
            return


def _sentence(limit: int) -> str:
    return f"body: larger than {limit:,} bytes"


def _bounded(receive: Receive, limit: int) -> Receive:
    """A body that came without a length ends here when it turns out too long."""
    got = 0

    async def bounded() -> Message:
        nonlocal got
        message = await receive()
        got += len(message.get("body", b""))
        if got > limit:
            raise HTTPException(413, _sentence(limit))
        return message

    return bounded
