"""The server as an ASGI application. In: a queue before a judge, a name, a key. Out: every route, behind the limits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp

from crm.rewards.scoring import Rewards
from crm.rewards.server import routes, shims
from crm.rewards.server.batching import RETRY_AFTER_S, QueueFullError, ReadingError, RewardQueue
from crm.rewards.server.edge import Edge
from crm.rewards.server.measures import Measures
from crm.rewards.server.serving import Served
from crm.schema import RecordError
from crm.web.bodies import Body, BodyError, describe
from crm.web.server import BodyLimit, KnownHosts

MAX_BODY = 4_000_000
"""Bytes of a request."""
GONE = 499
"""The status of a request whose client has gone; nobody sees it but the counts."""


class Mistake(Body):
    """What went wrong, in a sentence."""

    error: str


WRONG: dict[int | str, dict[str, Any]] = {
    401: {"model": Mistake, "description": "The key is missing or wrong"},
    403: {"model": Mistake, "description": "The name that was asked, or the site that asks, is not allowed"},
    404: {"model": Mistake, "description": "Another model is asked for than the one that is served"},
    413: {"model": Mistake, "description": "The body is too large"},
    422: {"model": Mistake, "description": "Something that was sent is wrong, or a response cannot be read"},
    500: {"model": Mistake, "description": "The judge broke on this request"},
    503: {"model": Mistake, "description": "Too much waits; Retry-After says when to come again"},
}
"""Answers that every route may give instead."""


def make_app(
    rewards: Rewards,
    *,
    name: str,
    version: str,
    queue_rows: int,
    batch_rows: int,
    key: str | None = None,
    listening: str = "",
    hosts: Sequence[str] = (),
) -> ASGIApp:
    """The whole application; its lifespan ends the queue. ``listening`` and ``hosts`` are as for `KnownHosts`."""
    measures = Measures()
    queue = RewardQueue(rewards, queue_rows=queue_rows, batch_rows=batch_rows, told=measures.batch)
    measures.watch(lambda: queue.waiting)

    @asynccontextmanager
    async def lifespan(_api: FastAPI) -> AsyncIterator[None]:
        yield
        queue.close()

    api = FastAPI(title="Rewards", version=version, docs_url=None, redoc_url=None, responses=WRONG, lifespan=lifespan)
    served = Served(queue, name)
    routes.add_routes(api, served)
    shims.add_shims(api, served)

    @api.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        """Counts and times, for Prometheus."""
        return Response(measures.text(), media_type="text/plain; version=0.0.4")

    _explain(api)
    describe(api, (*routes.BODIES, *shims.BODIES))
    limited = BodyLimit(api, lambda path: MAX_BODY)
    known = KnownHosts(limited, listening=listening, hosts=hosts)
    return Edge(known, key=key, digest=rewards.judge.digest, measures=measures)


def _explain(api: FastAPI) -> None:
    """Give every mistake its status and its sentence."""
    busy = {"Retry-After": str(RETRY_AFTER_S)}
    known: dict[type[Exception], tuple[int, Mapping[str, str]]] = {
        BodyError: (422, {}),
        RecordError: (422, {}),
        QueueFullError: (503, busy),
        ReadingError: (500, {}),
    }

    async def told(_request: Request, error: Exception) -> JSONResponse:
        status, headers = known[type(error)]
        return JSONResponse({"error": str(error)}, status, headers=headers)

    for kind in known:
        api.add_exception_handler(kind, told)

    @api.exception_handler(HTTPException)
    async def http(_request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)

    @api.exception_handler(ClientDisconnect)
    async def gone(_request: Request, _error: Exception) -> Response:
        return Response(status_code=GONE)
