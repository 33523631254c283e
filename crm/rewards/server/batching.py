"""One judge for many requests. In: groups and pairs of responses. Out: their rewards, read together with others'.

While the judge reads, requests wait; then all that wait are read together, the oldest first, up to a limit. Whoever has
gone by then is not read at all. A batch that breaks the judge is read again request by request, so that one of them
takes no other with it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from crm.rewards.scoring import Group, Pair, Reward, Rewards

log = logging.getLogger(__name__)
NO_VERDICT = "no_verdict"
"""The judge read it, and gave no finite number."""
ALONE = "alone"
"""A judge that only compares was given one response and no anchor."""
CHARACTERS_PER_ROW = 2000
"""Of a batch and of the line, on average: some 500 tokens, so that long texts fill them sooner."""
RETRY_AFTER_S = 1


class QueueFullError(RuntimeError):
    """No more can wait; the message is for people."""


class ReadingError(RuntimeError):
    """The judge broke on this request."""


@dataclass(frozen=True)
class Size:
    """What is read: ``rows`` are readings, or responses of a judge that scores; ``characters`` of all texts."""

    rows: int = 0
    characters: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.rows + other.rows, self.characters + other.characters)

    def __sub__(self, other: Size) -> Size:
        return Size(self.rows - other.rows, self.characters - other.characters)

    def within(self, rows: int) -> bool:
        """Whether it is no more than so many rows of `CHARACTERS_PER_ROW`."""
        return self.rows <= rows and self.characters <= rows * CHARACTERS_PER_ROW


@dataclass(frozen=True)
class Work:
    """What one request asks for."""

    groups: tuple[Group, ...] = ()
    pairs: tuple[Pair, ...] = ()

    def size(self, pointwise: bool) -> Size:
        """As the judge reads it: a response once, or a pair in both orders."""
        total = Size()
        for group in self.groups:
            count = len(group.responses)
            rows = count if pointwise else 2 * (count if group.anchor else count * (count - 1) // 2)
            total += Size(rows, _characters(group) if pointwise else rows * _characters(group) // max(1, count))
        for pair in self.pairs:
            total += Size(2, 2 * _characters(pair.group))
        return total


@dataclass(frozen=True)
class Outcome:
    """Rewards of each group, the log-odds of each pair in both orders; where one is None its reason is a word."""

    groups: list[list[Reward]] = field(default_factory=list)
    reasons: list[list[str | None]] = field(default_factory=list)
    pairs: list[tuple[Reward, Reward]] = field(default_factory=list)
    pair_reasons: list[str | None] = field(default_factory=list)


@dataclass(eq=False)
class _Job:
    work: Work
    size: Size
    future: Future[Outcome] = field(default_factory=Future)


class RewardQueue:
    """One thread that has ``rewards`` read what waits: ``queue_rows`` at most, ``batch_rows`` of it at a time.

    ``told`` is called after each batch with its rows and the seconds that it took.
    """

    def __init__(
        self,
        rewards: Rewards,
        *,
        queue_rows: int,
        batch_rows: int,
        told: Callable[[int, float], None] = lambda rows, seconds: None,
    ) -> None:
        self.rewards, self.queue_rows, self.batch_rows, self._told = rewards, queue_rows, batch_rows, told
        self._line: deque[_Job] = deque()
        self._waiting = Size()
        self._changed = threading.Condition()
        self._closed = False
        # Answers leave by a thread of their own: each wakes somebody who then has the interpreter, and the judge would
        # wait for it once an answer.
        self._answers = ThreadPoolExecutor(1, "answers")
        self._worker = threading.Thread(target=self._work, name="rewards", daemon=True)
        self._worker.start()

    @property
    def waiting(self) -> int:
        """Rows of those who wait; what is being read is not among them."""
        return self._waiting.rows

    def submit(self, work: Work) -> Future[Outcome]:
        """A place in the line; cancelling what comes back gives it up. Raises `QueueFullError`.

        The result raises `ReadingError` where the judge broke on this work.
        """
        job = _Job(work, work.size(self.rewards.pointwise))
        with self._changed:
            if self._closed:
                raise QueueFullError("the server is being stopped; ask again when it is back")
            if self._line and not (self._waiting + job.size).within(self.queue_rows):
                raise QueueFullError(f"{self._waiting.rows:,} readings wait already; try again in a moment")
            self._line.append(job)
            self._waiting += job.size
            self._changed.notify()
        job.future.add_done_callback(partial(self._forget, job))
        return job.future

    def close(self) -> None:
        """Stop after the batch at hand; whoever waits is told."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._worker.join()
        self._answers.shutdown()

    def _forget(self, job: _Job, _done: Future[Outcome]) -> None:
        """Of a job that was cancelled while it waited: its place is free at once."""
        with self._changed:
            if job in self._line:
                self._line.remove(job)
                self._waiting -= job.size

    def _work(self) -> None:
        while jobs := self._next():
            started = time.perf_counter()
            self._read(jobs)
            self._told(sum(job.size.rows for job in jobs), time.perf_counter() - started)

    def _next(self) -> list[_Job]:
        """The jobs of the next batch, none of them cancelled; none at all when the queue is closed."""
        with self._changed:
            while not self._closed:
                taken: list[_Job] = []
                total = Size()
                while self._line and (not taken or (total + self._line[0].size).within(self.batch_rows)):
                    job = self._line.popleft()
                    self._waiting -= job.size
                    if job.future.set_running_or_notify_cancel():
                        taken.append(job)
                        total += job.size
                if taken:
                    return taken
                self._changed.wait()
            left = list(self._line)
            self._line.clear()
        for job in left:
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(QueueFullError("the server is being stopped; ask again when it is back"))
        return []

    def _read(self, jobs: Sequence[_Job]) -> None:
        try:
            outcomes = read(self.rewards, [job.work for job in jobs])
        except Exception as error:
            if len(jobs) > 1:
                for job in jobs:
                    self._read([job])
                return
            log.exception("a request broke the judge")
            jobs[0].future.set_exception(
                ReadingError(f"the judge could not read this ({type(error).__name__}); the server's log says more")
            )
            return
        self._answers.submit(_answer, jobs, outcomes)


def _answer(jobs: Sequence[_Job], outcomes: Sequence[Outcome]) -> None:
    for job, outcome in zip(jobs, outcomes, strict=True):
        job.future.set_result(outcome)


def read(rewards: Rewards, works: Sequence[Work]) -> list[Outcome]:
    """What the judge says of each of ``works``, all read together."""
    groups = [group for work in works for group in work.groups]
    pairs = [pair for work in works for pair in work.pairs]
    scored = iter(rewards.of_groups(groups) if groups else [])
    compared = iter(rewards.in_both_orders(pairs) if pairs else [])
    found = []
    for work in works:
        own = [next(scored) for _ in work.groups]
        logits = [next(compared) for _ in work.pairs]
        reasons = [_reasons(rewards, group, given) for group, given in zip(work.groups, own, strict=True)]
        why = [_why(rewards, pair) if None in both else None for pair, both in zip(work.pairs, logits, strict=True)]
        found.append(Outcome(own, reasons, logits, why))
    return found


def _reasons(rewards: Rewards, group: Group, given: Sequence[Reward]) -> list[str | None]:
    if not rewards.pointwise and len(group.responses) == 1 and group.anchor is None:
        return [ALONE]
    other = -1 if group.anchor and not rewards.pointwise else None
    return [
        None if reward is not None else _why(rewards, Pair(group, place, place if other is None else other))
        for place, reward in enumerate(given)
    ]


def _why(rewards: Rewards, pair: Pair) -> str:
    fits = rewards.judge.fits((pair.comparison("why"), "ab"))
    return NO_VERDICT if fits else rewards.judge.left_out


def _characters(group: Group) -> int:
    turns = (*group.prompt, *(turn for text in group.responses for turn in text), *(group.anchor or ()))
    return sum(map(len, group.criteria)) + sum(len(turn.content) for turn in turns)
