"""Several jobs at once on one event loop. In: jobs and how many may run at a time. Out: their results, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

Made = TypeVar("Made")


async def gather_limited(jobs: Sequence[Callable[[], Awaitable[Made]]], at_once: int) -> list[Made]:
    """Results in the order of ``jobs``. The first error, or an interruption, ends all others before it is raised."""
    places = asyncio.Semaphore(at_once)

    async def one(job: Callable[[], Awaitable[Made]]) -> Made:
        async with places:
            return await job()

    tasks = [asyncio.ensure_future(one(job)) for job in jobs]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
