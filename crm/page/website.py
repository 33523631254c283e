"""Serve the page's own files: the page at ``/``, and what it loads below ``/static``."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import FileResponse
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FILES = Path(__file__).parent / "static"
FRESH = {"Cache-Control": "no-cache"}
"""Browsers ask each time whether a file has changed, so that no two versions of the page meet."""


def add_website(api: FastAPI) -> None:
    """Serve the page beside the routes of ``api``."""

    @api.get("/", include_in_schema=False)
    def page() -> Response:
        return FileResponse(FILES / "index.html", headers=FRESH)

    api.mount("/static", _Fresh(directory=FILES))


class _Fresh(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        """As `StaticFiles` makes it, with `FRESH`."""
        response = await super().get_response(path, scope)
        response.headers.update(FRESH)
        return response
