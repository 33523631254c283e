"""Two hundred people at a time on the page's HTTP API. In: a `Task`, a checkpoint. Out: mixed answers, leaks, waiting.

Everybody asks, reads for a while and asks again, mostly for what nobody has asked before; some leave before the answer
is there. Every answer has to name the wish that was asked. Those to the usual wishes, and some of the others, are also
compared with what the server answers to the same wish when nobody else is there.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from bench.soak.servers import Server
from bench.soak.stage import Found, Limit, Task
from bench.soak.watch import Watch, by_minute, percentiles
from crm.io.draws import generator

PEOPLE = 200
REST_S = (1.0, 4.0)
"""Seconds that somebody reads a ranking, at least and at most."""
USUAL = tuple(f"Prefers answers about {topic}" for topic in ("tea", "trains", "rain", "birds", "chess", "bread"))
KINDS = ("concise", "detailed", "friendly", "formal", "funny", "careful", "bold", "calm", "vivid", "plain")
NEW, LEAVES, LOOKED_AT = 0.8, 0.1, 0.02
"""Shares: of wishes that are new, of requests that are given up, of new wishes that are asked again alone."""
LEAVES_AFTER_S = 0.05
NEAR = 1e-5
"""Win rates that differ by less are of the same wish: words that are read with others round otherwise."""
MORE_DESCRIPTORS = 4
SETTLES_S = 20.0
Board = dict[str, tuple[float | None, ...]]
"""Model to win rate and both ends of its interval; the baseline has none."""


@dataclass
class Asked:
    """What people saw: when and how long they waited, and answers that are looked at again when all are gone."""

    started: float
    ends: float
    alone: dict[str, Board]
    waited: list[tuple[float, float]] = field(default_factory=list)
    kept: dict[str, Board] = field(default_factory=dict)


def run(task: Task, checkpoint: Path) -> Found:
    """A server with an index, the usual wishes alone, the crowd, and the other wishes alone."""
    found, watch = Found(), Watch(task.started)
    settings = (f"checkpoint={checkpoint}", "requests_per_minute=1000000", "progress=false")
    with Server("app", task.folder, *settings) as server:
        alone = {wish: board for wish in USUAL if (board := asked_alone(found, server.address, wish))}
        before = server.process.num_fds()
        watch.look(server.process, now=True)
        seen = Asked(task.started, time.monotonic() + 0.9 * max(1.0, task.seconds - task.passed), alone)
        asyncio.run(_crowd(task, found, server, watch, seen))
        for wish, board in seen.kept.items():
            found.tried["asked again alone"] += 1
            compare(found, wish, board, asked_alone(found, server.address, wish))
        after = _settled(server, before)
        watch.look(server.process, now=True)
    found.latency = by_minute(seen.waited)
    found.watched = {"page": watch.points}
    found.measured = {"descriptors": {"first": before, "last": after}, "people": PEOPLE}
    found.measured["waited, s"] = percentiles([seconds for _, seconds in seen.waited]) if seen.waited else {}
    found.limits = [
        Limit("answers", found.tried["answers"], at_least=1),
        Limit("more descriptors", after - before, at_most=MORE_DESCRIPTORS),
        watch.limit("page"),
    ]
    return found


async def _crowd(task: Task, found: Found, server: Server, watch: Watch, seen: Asked) -> None:
    async def look() -> None:
        while time.monotonic() < seen.ends:
            watch.look(server.process)
            task.tell(task.passed / task.seconds, f"{found.tried['answers']:,} answers")
            await asyncio.sleep(0.5)

    await asyncio.gather(look(), *(_person(task.seed, number, found, server, seen) for number in range(PEOPLE)))


async def _person(seed: int, number: int, found: Found, server: Server, seen: Asked) -> None:
    """One connection; asks and rests until the time is up."""
    draws = generator(seed, 0, str(number), "people")
    async with httpx.AsyncClient(base_url=server.address, timeout=60, verify=False) as http:  # noqa: S501 - no TLS
        await asyncio.sleep(draws.uniform(0.0, min(REST_S[1], (seen.ends - time.monotonic()) / 2)))
        for count in range(10**9):
            if time.monotonic() > seen.ends:
                return
            if draws.random() < LEAVES:
                await _leave(http, found, f"{number}.{count}", draws)
            else:
                await _ask(http, found, seen, f"{number}.{count}", draws)
            await asyncio.sleep(min(draws.uniform(*REST_S), max(0.0, seen.ends - time.monotonic())))


async def _ask(http: httpx.AsyncClient, found: Found, seen: Asked, name: str, draws: random.Random) -> None:
    new = draws.random() < NEW
    wish = f"Prefers {draws.choice(KINDS)} answers as of {name}" if new else draws.choice(USUAL)
    begun = time.monotonic()
    found.tried["requests"] += 1
    try:
        answer = await http.post("/api/rank", json={"criteria": [wish]})
    except httpx.HTTPError as error:
        found.fail("lost", f"{wish}: {error!r}")
        return
    ended = time.monotonic()
    seen.waited.append((ended - seen.started, ended - begun))
    board = board_of(found, wish, answer)
    if board is None:
        return
    found.tried["answers"] += 1
    if not new and wish in seen.alone:
        compare(found, wish, board, seen.alone[wish])
    elif draws.random() < LOOKED_AT or not seen.kept:
        seen.kept[wish] = board


async def _leave(http: httpx.AsyncClient, found: Found, name: str, draws: random.Random) -> None:
    """Ask, and be gone before the answer is."""
    found.tried["given up"] += 1
    asked = http.post("/api/rank", json={"criteria": [f"Left behind {name}"]})
    try:
        await asyncio.wait_for(asked, draws.uniform(0.0, LEAVES_AFTER_S))
    except (TimeoutError, httpx.HTTPError):
        return


def asked_alone(found: Found, address: str, wish: str) -> Board | None:
    """The ranking of a wish while nobody else asks; none where it fails, which is counted."""
    found.tried["requests"] += 1
    try:
        answer = httpx.post(f"{address}/api/rank", json={"criteria": [wish]}, timeout=60)
    except httpx.HTTPError as error:
        found.fail("lost", f"{wish}: {error!r}")
        return None
    return board_of(found, wish, answer)


def board_of(found: Found, wish: str, answer: httpx.Response) -> Board | None:
    """Model to win rate and its interval; none where the answer is no complete ranking of this wish."""
    try:
        said: dict[str, Any] = json.loads(answer.text.strip().splitlines()[-1])
        rows: Sequence[dict[str, Any]] = said["leaderboard"]
        board = {row["model"]: tuple(row[name] for name in ("win_rate", "low", "high")) for row in rows}
    except (ValueError, KeyError, IndexError, TypeError):
        found.fail("no ranking", f"{wish}: status {answer.status_code}, {answer.text[:100]!r}")
        return None
    if said["criteria"] != [wish]:
        found.fail("mixed", f"{wish}: answered {said['criteria']}")
        return None
    if not said["complete"] or not board:
        found.fail("no ranking", f"{wish}: not complete")
        return None
    return board


def compare(found: Found, wish: str, board: Board, alone: Board | None) -> None:
    """Both have to be the same ranking."""
    found.tried["compared"] += 1
    same = alone is not None and board.keys() == alone.keys()
    if alone is not None and same:
        pairs = ((a, b) for model in board for a, b in zip(board[model], alone[model], strict=True))
        same = all(a == b or (a is not None and b is not None and abs(a - b) <= NEAR) for a, b in pairs)
    if not same:
        found.fail("mixed", f"{wish}: another ranking than the one that it has alone")


def _settled(server: Server, before: int) -> int:
    """Descriptors, once what was closed is closed on the server's side too, or after `SETTLES_S`."""
    ends = time.monotonic() + SETTLES_S
    while (now := int(server.process.num_fds())) > before and time.monotonic() < ends:
        time.sleep(0.2)
    return now
