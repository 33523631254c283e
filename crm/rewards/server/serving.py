"""A judge as the routes see it. In: work of a request. Out: the outcome, unless the client has gone by then."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from crm.rewards.server.batching import Outcome, RewardQueue, Work


class Served:
    """The judge behind ``queue``; ``name`` is what requests call it."""

    def __init__(self, queue: RewardQueue, name: str) -> None:
        self.queue, self.name = queue, name
        self.digest = queue.rewards.judge.digest
        self.pointwise = queue.rewards.pointwise

    def check_model(self, model: str | None) -> None:
        """404 unless a request names no model, or this one."""
        if model is not None and model not in (self.name, self.digest):
            raise HTTPException(404, f"model: {model[:80]!r} is not served here, expected {self.name!r} or its digest")

    async def outcome(self, request: Request, work: Work) -> Outcome:
        """What the judge says of ``work``. Raises ``ClientDisconnect`` as soon as nobody waits for it any more."""
        answer = asyncio.wrap_future(self.queue.submit(work))
        gone = asyncio.ensure_future(_gone(request))
        try:
            both: set[asyncio.Future[Any]] = {answer, gone}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise ClientDisconnect
            return answer.result()
        finally:
            gone.cancel()
            answer.cancel()


async def _gone(request: Request) -> None:
    """Ends when the client closes the connection; the body has been read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
