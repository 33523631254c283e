"""A reward server that is restarted in the middle of rollouts. In: a `Task`, a checkpoint. Out: rewards nobody gave.

Fifty clients ask for rewards, one rollout after the other. Half of them wait until the server is back, the others soon
give up and mask what has no answer. Every number that is paid has to be the one that the folder itself gives.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from bench.serve import rows
from bench.soak.servers import Server
from bench.soak.stage import Found, Limit, Task
from bench.soak.watch import Watch, by_minute, percentiles
from crm.config import compose
from crm.io.draws import generator
from crm.judges import open_judge
from crm.judges.reward_client import GroupRewards, RewardClient, ServerLostError
from crm.rewards.scoring import Group, Rewards

CLIENTS = 50
RESTARTS = 10
GROUPS = 256
"""Different groups of eight responses."""
ROLLOUT = 4
"""Groups that a client asks for at once."""
REST_S = (2.0, 6.0)
"""Seconds that a client trains on a rollout, at least and at most."""
PATIENT_S, IMPATIENT_S = 180.0, 4.0
NEAR = 1e-3
"""Nats between two numbers that are the same one up to rounding."""
JOIN_S = 240.0
BETWEEN_S = 15.0
"""Seconds from one restart to the next, at least."""


@dataclass
class Rollouts:
    """What all clients share; the lock is held while it changes."""

    groups: list[Group]
    expected: list[list[float]]
    found: Found
    started: float
    over: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    under_way: int = 0
    waited: list[tuple[float, float]] = field(default_factory=list)


def run(task: Task, checkpoint: Path) -> Found:
    """The clients at work while the server is stopped and started again, `RESTARTS` times."""
    found, watch = Found(), Watch(task.started)
    groups = rows()[:GROUPS]
    expected = without_server(checkpoint, groups, task.folder)
    shared, wanted = Rollouts(groups, expected, found, task.started), task.count(RESTARTS)
    with Server("serve", task.folder, f"checkpoint={checkpoint}") as server, ExitStack() as closing:
        closing.callback(shared.over.set)
        threads = _clients(closing, server.address, shared, task.seed)
        fewest = _restart(task, found, server, watch, shared, wanted)
        shared.over.set()
        for thread in threads:
            thread.join(JOIN_S)
        if hanging := sum(thread.is_alive() for thread in threads):
            found.fail("hangs", f"{hanging} clients have not ended after {JOIN_S:g} s")
        _look(watch, server, now=True)
    found.latency, found.watched = by_minute(shared.waited), {"reward server": watch.points}
    found.measured = {"clients": CLIENTS, "rollouts under way at a restart, fewest": fewest}
    found.measured["waited, s"] = percentiles([seconds for _, seconds in shared.waited]) if shared.waited else {}
    found.limits = [
        Limit("restarts", found.tried["restarts"], at_least=wanted),
        Limit("rollouts under way at a restart", fewest, at_least=1),
        Limit("rewards paid", found.tried["rewards"], at_least=1),
        Limit("rewards masked", found.tried["masked"], at_least=1),
    ]
    return found


def without_server(checkpoint: Path, groups: list[Group], folder: Path) -> list[list[float]]:
    """What the folder itself gives to each response of each group."""
    judge = open_judge(compose("serve", [f"checkpoint={checkpoint}", "progress=false"], folder / "alone")).judge
    return [[float(reward or "nan") for reward in own] for own in Rewards(judge).of_groups(groups)]


def _clients(closing: ExitStack, address: str, shared: Rollouts, seed: int) -> list[threading.Thread]:
    threads = []
    for number in range(CLIENTS):
        patient = number % 2 == 0
        deadline = PATIENT_S if patient else IMPATIENT_S
        client = closing.enter_context(RewardClient(address, deadline_s=deadline, mask=not patient, concurrency=1))
        threads.append(threading.Thread(target=_client, args=(client, shared, seed, number), daemon=True))
        threads[-1].start()
    return threads


def _restart(task: Task, found: Found, server: Server, watch: Watch, shared: Rollouts, wanted: int) -> int:
    """Stop the server now and then, by SIGKILL and SIGTERM in turn; the fewest rollouts that were under way."""
    draws, fewest = generator(task.seed, 0, "restarts", "soak"), CLIENTS
    begun, left = task.passed, max(BETWEEN_S * (wanted + 1), task.seconds - task.passed)
    for number in range(wanted):
        _work_until(task, watch, server, begun + left * (number + draws.uniform(0.3, 0.9)) / (wanted + 1))
        waits = time.monotonic() + BETWEEN_S
        while not shared.under_way and time.monotonic() < waits:
            time.sleep(0.001)
        fewest = min(fewest, shared.under_way)
        server.stop((signal.SIGKILL, signal.SIGTERM)[number % 2])
        time.sleep(draws.uniform(0.0, 2.0))
        server.start()
        found.tried["restarts"] += 1
        task.tell(task.passed / task.seconds, f"{found.tried['restarts']} restarts")
    _work_until(task, watch, server, begun + left)
    return fewest


def _work_until(task: Task, watch: Watch, server: Server, second: float) -> None:
    while task.passed < second:
        _look(watch, server)
        time.sleep(0.2)


def _look(watch: Watch, server: Server, *, now: bool = False) -> None:
    try:
        watch.look(server.process, now=now)
    except psutil.Error:  # it has just ended
        return


def _client(client: RewardClient, shared: Rollouts, seed: int, number: int) -> None:
    """Rollouts until the end."""
    draws, found = generator(seed, 0, str(number), "rollouts"), shared.found
    while not shared.over.is_set():
        chosen = draws.sample(range(len(shared.groups)), min(ROLLOUT, len(shared.groups)))
        with shared.lock:
            found.tried["rollouts"] += 1
            shared.under_way += 1
        begun = time.monotonic()
        try:
            said = client.score([_body(shared.groups[place]) for place in chosen])
        except (ServerLostError, ValueError) as error:
            said = []
            with shared.lock:
                found.fail("lost", f"client {number}: {error}")
        except RuntimeError:  # its connection was closed: the soak was ended
            return
        ended = time.monotonic()
        with shared.lock:
            shared.under_way -= 1
            shared.waited.append((ended - shared.started, ended - begun))
            for place, rewards in zip(chosen, said, strict=False):
                check(found, rewards, shared.expected[place], f"client {number}, group {place}")
        shared.over.wait(draws.uniform(*REST_S))


def check(found: Found, said: GroupRewards, expected: list[float], where: str) -> None:
    """Each reward is the folder's own, or none with a reason."""
    if len(said.rewards) != len(expected):
        found.fail("made-up reward", f"{where}: {len(said.rewards)} rewards of {len(expected)} responses")
    for reward, reason, own in zip(said.rewards, said.reasons, expected, strict=False):
        if reward is None:
            found.tried["masked"] += 1
            if not reason:
                found.fail("masked without a reason", where)
            continue
        found.tried["rewards"] += 1
        if reason is not None or not math.isclose(reward, own, rel_tol=0.0, abs_tol=NEAR):
            found.fail("made-up reward", f"{where}: {reward}, the folder says {own} ({reason})")


def _body(group: Group) -> dict[str, Any]:
    return {
        "criteria": list(group.criteria),
        "messages": [{"role": turn.role, "content": turn.content} for turn in group.prompt],
        "responses": [turns[0].content for turns in group.responses],
    }
