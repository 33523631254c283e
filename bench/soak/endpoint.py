"""An LLM judge at an endpoint that fails half of the time. In: a `Task`. Out: made-up verdicts, hanging calls.

Each verdict is compared with what the endpoint said to that very question; each question has a name that no other has.
What got none has to be counted as a failure of a known kind. It mostly waits, so that it can run beside other stages.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from bench.soak.faults import FaultyEndpoint
from bench.soak.stage import Found, Limit, Task
from bench.soak.watch import Watch
from crm.io.chat.endpoint import Endpoint
from crm.io.chat.failures import FAILURES
from crm.judges import Asked
from crm.judges.llm_judge import PORTION, LlmJudge
from crm.judges.verdicts import FAILURES as REPLIES
from crm.schema import Comparison, Message

CONCURRENCY = 8
DEADLINE_S = 3.0
SLACK_S = 5.0
"""Seconds beyond its deadlines that a portion may take on a machine with other work."""
PAUSE_S = 0.05
"""Before each answer."""


def run(task: Task) -> Found:
    """Portions of questions until the time is up."""
    logging.getLogger("crm.judges.llm_judge").setLevel(logging.ERROR)  # every portion has unanswered ones
    found, watch, own = Found(), Watch(task.started), psutil.Process(os.getpid())
    slowest = 0.0
    with serving(FaultyEndpoint(task.seed, PAUSE_S)) as server:
        settings = {"call_deadline_s": DEADLINE_S, "concurrency": CONCURRENCY, "backoff_s": 0.05}
        judge = LlmJudge(Endpoint(server.url, "faulty", breaker=10**6, attempts=3, **settings))  # type: ignore[arg-type]
        while not task.over:
            asked = questions(found.tried["questions"], PORTION * CONCURRENCY)
            begun = time.monotonic()
            _check(found, server, judge, asked)
            server.forget()
            slowest = max(slowest, time.monotonic() - begun)
            watch.look(own)
            task.tell(task.passed / task.seconds, f"{found.tried['questions']:,} questions")
        watch.look(own, now=True)
    _sums(found, judge, server)
    faults = server.played.total() - server.played["good"]
    found.watched = {"LLM judge": watch.points}
    found.measured = {"replies": dict(server.played), "kinds of failure": dict(judge.counts.failures)}
    found.limits = [
        Limit("slowest portion, s", round(slowest, 2), at_most=PORTION * DEADLINE_S + SLACK_S),
        Limit("share of faults", round(faults / server.played.total(), 3), at_least=0.4),
        Limit("verdicts", found.tried["verdicts"], at_least=1),
        watch.limit("LLM judge"),
    ]
    return found


@contextmanager
def serving(server: FaultyEndpoint) -> Iterator[FaultyEndpoint]:
    """The endpoint in a thread of its own."""
    loop, started = asyncio.new_event_loop(), threading.Event()
    stop = asyncio.Event()

    async def serve() -> None:
        listening = await server.start()
        started.set()
        await stop.wait()
        listening.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    try:
        if not started.wait(20):
            raise OSError("bench.soak: the faulty endpoint did not start")
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(20)


def questions(start: int, count: int) -> list[Asked]:
    """Comparisons in both orders in turn; name and responses are of this question alone."""
    found: list[Asked] = []
    for number in range(start, start + count):
        name = f"question {number // 2}"
        first, second = ((Message("assistant", f"{side} of {name}"),) for side in ("left", "right"))
        row = Comparison(name, name, ("Likes tea",), (Message("user", name),), first, second, label="tie")
        found.append((row, "ab" if number % 2 == 0 else "ba"))
    return found


def _check(found: Found, server: FaultyEndpoint, judge: LlmJudge, asked: list[Asked]) -> None:
    """Every reading against what was said; what has none, or a failure, is no verdict."""
    found.tried["questions"] += len(asked)
    before = judge.counts.failures.total()
    silent = len(asked)
    for reading in (reading for portion in judge.read(asked) for reading in portion):
        shown = reading.comparison.response_a if reading.order == "ab" else reading.comparison.response_b
        said = server.said.get((reading.comparison.id, shown[0].content))
        if reading.preference_logit is None:
            continue
        silent -= 1
        found.tried["verdicts"] += 1
        taken = "A" if (reading.preference_logit > 0) == (reading.order == "ab") else "B"
        if said is None:
            found.fail("made-up verdict", f"{reading.comparison.id} {reading.order}: {taken}, nothing was said")
        elif said != taken:
            found.fail("made-up verdict", f"{reading.comparison.id} {reading.order}: {taken}, {said} was said")
    counted = judge.counts.failures.total() - before
    if counted != silent:
        found.fail("failures not counted", f"{silent} of {len(asked)} without a verdict, {counted} counted")


def _sums(found: Found, judge: LlmJudge, server: FaultyEndpoint) -> None:
    counts = judge.counts
    for kind in counts.failures.keys() - FAILURES.keys() - REPLIES.keys():
        found.fail("unknown kind", kind)
    if counts.requests != counts.answered + counts.failures.total():
        told = f"{counts.requests} requests, {counts.answered} answered, {counts.failures.total()} failed"
        found.fail("failures not counted", told)
    if counts.calls < server.played.total():
        found.fail("calls not counted", f"{counts.calls} counted, {server.played.total()} came")
