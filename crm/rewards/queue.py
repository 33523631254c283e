"""One judge for many requests: while it reads, requests wait, and then all that wait are read together."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from fastapi import HTTPException

from crm.rewards.scoring import Group, Pair, Reward, Rewards

log = logging.getLogger(__name__)
NO_VERDICT, ALONE = "no_verdict", "alone"
"""Reasons: the judge gave no finite number; a judge that only compares got one response and no anchor."""


@dataclass(frozen=True)
class Work:
    """What one request asks for."""

    groups: Sequence[Group] = ()
    pairs: Sequence[Pair] = ()

    def rows(self, pointwise: bool) -> int:
        """Readings: a response once, or a pair in both orders."""
        counts = [(len(group.responses), group.anchor) for group in self.groups]
        each = [count if pointwise else 2 * count if anchor else count * (count - 1) for count, anchor in counts]
        return sum(each) + 2 * len(self.pairs)


@dataclass(frozen=True)
class Outcome:
    """Rewards of each group, log-odds of each pair in both orders; a reason wherever one is None."""

    groups: list[list[Reward]] = field(default_factory=list)
    reasons: list[list[str | None]] = field(default_factory=list)
    pairs: list[tuple[Reward, Reward]] = field(default_factory=list)
    pair_reasons: list[str | None] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class _Job:
    work: Work
    rows: int
    gone: Callable[[], Awaitable[bool]]
    answer: asyncio.Future[Outcome]


class RewardQueue:
    """Reads ``batch_rows`` of what waits at a time, the oldest first; at most ``queue_rows`` wait."""

    def __init__(self, rewards: Rewards, *, queue_rows: int, batch_rows: int) -> None:
        self.rewards, self.queue_rows, self.batch_rows = rewards, queue_rows, batch_rows
        self.waiting = 0
        self._line: deque[_Job] = deque()
        self._added = asyncio.Event()

    async def submit(self, work: Work, gone: Callable[[], Awaitable[bool]]) -> Outcome:
        """Wait for the judge. ``gone`` tells whether the client has left; its work is then not read."""
        rows = work.rows(self.rewards.pointwise)
        if rows > self.queue_rows:
            hint = "" if self.rewards.pointwise else " a group, or an anchor: this judge only compares"
            raise HTTPException(422, f"{rows:,} readings, at most {self.queue_rows:,}; send fewer responses{hint}")
        if self.waiting + rows > self.queue_rows:
            busy = f"{self.waiting:,} readings wait already; try again in a moment"
            raise HTTPException(503, busy, headers={"Retry-After": "1"})
        job = _Job(work, rows, gone, asyncio.get_running_loop().create_future())
        self._line.append(job)
        self.waiting += rows
        self._added.set()
        return await job.answer

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            await self._added.wait()
            taken: list[_Job] = []
            rows = 0
            while self._line and (not taken or rows + self._line[0].rows <= self.batch_rows):
                job = self._line.popleft()
                self.waiting -= job.rows
                if not await job.gone():
                    taken.append(job)
                    rows += job.rows
            if not self._line:
                self._added.clear()
            await self._read(taken)

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
            outcomes = [HTTPException(500, sentence)]
        for job, outcome in zip(jobs, outcomes, strict=True):
            if not job.answer.done():
                job.answer.set_exception(outcome) if isinstance(outcome, Exception) else job.answer.set_result(outcome)


def read(rewards: Rewards, works: Sequence[Work]) -> list[Outcome | Exception]:
    """What the judge says of each of ``works``, all read together."""
    scored = iter(rewards.of_groups([group for work in works for group in work.groups]))
    compared = iter(rewards.in_both_orders([pair for work in works for pair in work.pairs]))
    found: list[Outcome | Exception] = []
    for work in works:
        own, logits = [next(scored) for _ in work.groups], [next(compared) for _ in work.pairs]
        reasons = [_reasons(rewards, group, given) for group, given in zip(work.groups, own, strict=True)]
        why = [_reason(rewards, pair) if None in both else None for pair, both in zip(work.pairs, logits, strict=True)]
        found.append(Outcome(own, reasons, logits, why))
    return found


def _reasons(rewards: Rewards, group: Group, given: Sequence[Reward]) -> list[str | None]:
    if not rewards.pointwise and len(group.responses) == 1 and group.anchor is None:
        return [ALONE]
    beside = -1 if group.anchor and not rewards.pointwise else None
    return [
        None if reward is not None else _reason(rewards, Pair(group, place, place if beside is None else beside))
        for place, reward in enumerate(given)
    ]


def _reason(rewards: Rewards, pair: Pair) -> str:
    return NO_VERDICT if rewards.judge.fits((pair.comparison("why"), "ab")) else rewards.judge.left_out
