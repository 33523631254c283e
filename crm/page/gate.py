"""What of Gradio is open. In: an ASGI application. Out: the same with the routes that the page needs, and no others.

Gradio has dozens of routes, and several read or hand out files of the server. The page needs none of those: pictures
come inline, and files of people go to `crm.page.uploads`. So nothing that people send may name a file either.
"""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

OWN = ("/api/",)
"""Begin the paths of routes that are not Gradio's."""
PAGE = frozenset({"/", "/config"})
"""What stands behind their question mark is for the page itself; Gradio has settings there that name files."""
READ = PAGE | {"/theme.css", "/favicon.ico", "/robots.txt", "/manifest.json", "/openapi.json"}
READ_BELOW = ("/assets/", "/static/", "/gradio_api/heartbeat/", "/gradio_api/queue/data")
SENT = frozenset({"/gradio_api/queue/join", "/gradio_api/run/predict", "/gradio_api/cancel", "/gradio_api/reset"})
"""Paths that take a body of JSON."""


class FileNamedError(ValueError):
    """A body holds an object that Gradio would take for a file of the server."""


class Gate:
    """Answers 404 for what is closed, and 422 for a body that is no JSON or names a file."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass an open request on, its body read and looked through."""
        if scope["type"] != "http":
            # "lifespan" starts and ends the server; the page has no web sockets.
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        path, method = scope["path"], scope["method"]
        if path.startswith(OWN):
            await self.app(scope, receive, send)
        elif method in ("GET", "HEAD") and (path in READ or path.startswith(READ_BELOW)):
            await self.app({**scope, "query_string": b""} if path in PAGE else scope, receive, send)
        elif method == "POST" and path in SENT:
            body = await Request(scope, receive).body()
            why = refusal(body)
            answer = self.app if why is None else JSONResponse({"error": why}, status_code=422)
            await answer(scope, _again(body, receive), send)
        else:
            await JSONResponse({"error": "there is nothing at this address"}, status_code=404)(scope, receive, send)


def refusal(body: bytes) -> str | None:
    """Why a body may not be passed on, in a sentence; ``None`` where it may."""
    try:
        json.loads(body, object_pairs_hook=_check)
    except FileNamedError as error:
        return str(error)
    except (ValueError, RecursionError):
        return "body: expected JSON in UTF-8"
    return None


def _check(pairs: list[tuple[str, Any]]) -> None:
    """Sees every object however deep it lies, also names that stand twice. Gradio's mark of a file is ``_type``."""
    for name, value in pairs:
        if name == "_type" and str(value).lower().startswith("gradio."):
            raise FileNamedError("body: names a file of the server; files are added by POST /api/models alone")


def _again(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read once more, then what comes after it."""
    given = False

    async def receiving() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receiving
