"""The queue of the reward server: requests that wait are read together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import HTTPException

from crm.rewards.scoring import Group, Pair, Reward, Rewards

log = logging.getLogger(__name__)
BATCH_ROWS = 256
"""Readings from which on further requests wait for the next batch; a request is never split."""
NO_VERDICT, ALONE = "no_verdict", "alone"
"""Reasons: the judge gave no finite number; a judge that only compares got one response."""
Work = Sequence[Group | Pair]
Outcome = list[tuple[list[Reward], list[str | None]]]
"""Rewards of a group, or log-odds of a pair in both orders, with a reason for each None."""


@dataclass(frozen=True, eq=False)
class _Job:
    work: Work
    rows: int
    answer: asyncio.Future[Outcome]


class RewardQueue:
    """Reads what waits in batches, the oldest first; at most ``queue_rows`` readings wait."""

    def __init__(self, rewards: Rewards, queue_rows: int) -> None:
        self.rewards, self.queue_rows, self.waiting = rewards, queue_rows, 0
        self._jobs: asyncio.Queue[_Job] = asyncio.Queue()

    async def submit(self, work: Work) -> Outcome:
        """Wait for the judge. Raises `HTTPException` for too much."""
        rows = sum(_rows(item, self.rewards.pointwise) for item in work)
        if rows > self.queue_rows:
            raise HTTPException(422, f"{rows:,} readings, at most {self.queue_rows:,}; send fewer responses")
        if self.waiting + rows > self.queue_rows:
            busy = f"{self.waiting:,} readings wait already; try again in a moment"
            raise HTTPException(503, busy, headers={"Retry-After": "1"})
        job = _Job(work, rows, asyncio.get_running_loop().create_future())
        self.waiting += rows
        self._jobs.put_nowait(job)
        return await job.answer

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            jobs = [await self._jobs.get()]
            while not self._jobs.empty() and sum(job.rows for job in jobs) < BATCH_ROWS:
                jobs.append(self._jobs.get_nowait())
            self.waiting -= sum(job.rows for job in jobs)
            await self._read(jobs)

    async def _read(self, jobs: Sequence[_Job]) -> None:
        """A batch that breaks the judge is read again request by request, so that others get their answer."""
        try:
            outcomes = await asyncio.to_thread(read, self.rewards, [job.work for job in jobs])
        except Exception as error:
            if len(jobs) > 1:
                for job in jobs:
                    await self._read([job])
                return
            log.exception("a request broke the judge")
            sentence = f"the judge could not read this ({type(error).__name__}); the server's log says more"
            if not jobs[0].answer.done():
                jobs[0].answer.set_exception(HTTPException(500, sentence))
            return
        for job, outcome in zip(jobs, outcomes, strict=True):
            if not job.answer.done():  # the client may be gone
                job.answer.set_result(outcome)


def read(rewards: Rewards, works: Sequence[Work]) -> list[Outcome]:
    """The outcome of each of ``works``, all read together."""
    items = [item for work in works for item in work]
    scored = iter(rewards.of_groups([item for item in items if isinstance(item, Group)]))
    compared = iter(rewards.in_both_orders([item for item in items if isinstance(item, Pair)]))
    given = [next(scored) if isinstance(item, Group) else list(next(compared)) for item in items]
    found = iter([(own, _reasons(rewards, item, own)) for item, own in zip(items, given, strict=True)])
    return [[next(found) for _ in work] for work in works]


def _rows(item: Group | Pair, pointwise: bool) -> int:
    """Readings: a response once, or a pair in both orders."""
    count = 2 if isinstance(item, Pair) else len(item.responses)
    return count if isinstance(item, Pair) or pointwise else count * (count - 1)


def _reasons(rewards: Rewards, item: Group | Pair, given: Sequence[Reward]) -> list[str | None]:
    """Why each of ``given`` is None; None for a number."""
    if isinstance(item, Group) and not rewards.pointwise and len(given) == 1:
        return [ALONE]

    def reason(place: int) -> str:
        pair = item if isinstance(item, Pair) else Pair(item, place, place)
        return NO_VERDICT if rewards.judge.fits((pair.comparison("why"), "ab")) else rewards.judge.left_out

    return [None if reward is not None else reason(place) for place, reward in enumerate(given)]
