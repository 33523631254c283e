"""``python -m bench.serve checkpoint=<run>/model``: the reward server under load, on the machine of its clients."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
from rich.progress import track

from bench.rounds import RESULTS, origin
from crm.config import compose
from crm.io.draws import generator
from crm.io.files import replace_file
from crm.judges.open import open_judge
from crm.leaderboard.bank.opening import simulate_bank
from crm.rewards.scoring import Group, Rewards
from crm.schema import Message

ROWS = 8
"""Responses of a request."""
BATCH = 256
"""Rows that are scored together without a server, as many as the server reads together."""
QUEUE_ROWS = 2048
CRITERIA = ("Prefers concise answers", "Prefers detailed answers", "Prefers bulleted lists", "Prefers flowing prose")
Expected = list[list[float]]


@dataclass
class Load:
    """What the clients saw: seconds of each right answer, of each look at /health; answers missing or wrong."""

    seconds: list[float] = field(default_factory=list)
    health: list[float] = field(default_factory=list)
    lost: int = 0


def main(arguments: list[str] | None = None) -> int:
    """Command line: overrides of ``serve.py``."""
    parser = argparse.ArgumentParser(prog="python -m bench.serve", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("overrides", nargs="+", help="of serve.py, such as checkpoint=<run>/model")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--port", type=int, default=7897)
    parser.add_argument("--out", type=Path, default=RESULTS / "serve.json")
    given = parser.parse_args(arguments)
    groups = rows()
    offline, expected = without_server(given.overrides, groups)
    with served(given.overrides, given.port) as (address, process):
        found = asyncio.run(measure(address, process, groups, expected, given.clients, given.seconds))
    found["share_of_offline"] = round(found["rows_per_s"] / offline, 3)
    found["offline_rows_per_s"] = round(offline, 1)
    head = {"command": "bench.serve " + " ".join(given.overrides), "cores": os.cpu_count(), **origin(1)}
    replace_file(given.out, json.dumps({**found, **head}, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    return 0


def rows() -> list[Group]:
    """Responses of simulated models to each query, `ROWS` a group, under each of the criteria; in no order."""
    made = simulate_bank(seed=1).bank
    authors = sorted(made.responses)
    groups = [
        Group((criterion,), query.prompt, tuple((Message("assistant", made.responses[who][query.id]),) for who in some))
        for criterion in CRITERIA
        for query in made.queries
        for some in (authors[:ROWS], authors[-ROWS:])
    ]
    generator(1, 0, "rows", "bench").shuffle(groups)
    return groups


def without_server(overrides: list[str], groups: list[Group]) -> tuple[float, Expected]:
    """Rows a second, and the rewards."""
    with tempfile.TemporaryDirectory() as folder:
        config = compose("serve", [*overrides, "progress=false"], Path(folder))
    rewards = Rewards(open_judge(config).judge)
    size = BATCH // ROWS
    rewards.of_groups(groups[:size])  # what is only slow the first time
    started = time.perf_counter()
    found = [
        own for at in track(range(0, len(groups), size), "offline") for own in rewards.of_groups(groups[at : at + size])
    ]
    taken = time.perf_counter() - started
    return len(groups) * ROWS / taken, [[float("nan" if reward is None else reward) for reward in own] for own in found]


@contextmanager
def served(overrides: list[str], port: int) -> Iterator[tuple[str, psutil.Process]]:
    """The address and the process of ``serve.py``, once it answers."""
    with tempfile.TemporaryDirectory() as folder:
        own = [f"port={port}", f"queue_rows={QUEUE_ROWS}", f"hydra.run.dir={folder}/run"]
        process = subprocess.Popen([sys.executable, "serve.py", *own, *overrides])  # noqa: S603 - our own script
        try:
            address = f"http://127.0.0.1:{port}"
            while process.poll() is None:
                with suppress(httpx.HTTPError):
                    httpx.get(f"{address}/health").raise_for_status()
                    break
                time.sleep(0.2)
            else:
                raise SystemExit("bench.serve: the server did not start")
            yield address, psutil.Process(process.pid)
            if process.poll() is not None:
                raise SystemExit(f"bench.serve: the server ended by itself, with {process.returncode}")
        except httpx.TransportError as error:
            raise SystemExit(f"bench.serve: {error!r}; the server's return code is {process.poll()}") from error
        finally:
            process.terminate()
            process.wait()


async def measure(
    address: str, process: psutil.Process, groups: list[Group], expected: Expected, clients: int, seconds: float
) -> dict[str, Any]:
    """A load of ``seconds`` after a warm-up of a sixth of that."""
    bodies = [_body(group) for group in groups]
    limits = httpx.Limits(max_connections=clients)
    kind = {"Content-Type": "application/json"}
    async with httpx.AsyncClient(base_url=address, timeout=120, limits=limits, headers=kind) as http:
        await load(http, bodies, expected, clients, seconds / 6)
        before = process.memory_info().rss
        started = time.perf_counter()
        found = await load(http, bodies, expected, clients, seconds)
        taken = time.perf_counter() - started
        grown = (process.memory_info().rss - before) / 1e6
    return {
        "clients": clients,
        "seconds": round(taken, 1),
        "requests": len(found.seconds),
        "rows_per_request": ROWS,
        "rows_per_s": round(len(found.seconds) * ROWS / taken, 1),
        "lost": found.lost,
        "median_s": round(float(np.median(found.seconds)), 3),
        "p95_s": round(float(np.quantile(found.seconds, 0.95)), 3),
        "health_s": round(float(np.quantile(found.health, 0.95)), 4),
        "health_slowest_s": round(max(found.health), 4),
        "memory_growth_mb": round(grown, 1),
    }


async def load(http: httpx.AsyncClient, bodies: list[bytes], expected: Expected, clients: int, seconds: float) -> Load:
    """Clients that ask one request after the other, each from a place of its own in the rows."""
    found, ends = Load(), time.perf_counter() + seconds

    async def client(number: int) -> None:
        place = number * len(bodies) // clients
        while time.perf_counter() < ends:
            place = (place + 1) % len(bodies)
            started = time.perf_counter()
            answer = await http.post("/v1/score", content=bodies[place])
            taken = time.perf_counter() - started
            right = answer.status_code == 200 and _same(answer.json()["groups"][0]["rewards"], expected[place])
            found.seconds += [taken] * right
            found.lost += not right

    async def watch() -> None:
        asked = (sys.executable, "-m", "bench.health", str(http.base_url), str(seconds))
        process = await asyncio.create_subprocess_exec(*asked, stdout=subprocess.PIPE)
        printed, _ = await process.communicate()  # nothing, where the server is gone
        found.health.extend(json.loads(printed))

    await asyncio.gather(watch(), *map(client, range(clients)))
    return found


def _same(given: list[float | None], expected: list[float]) -> bool:
    """Up to rounding, and nobody else's."""
    return None not in given and len(given) == len(expected) and np.allclose(np.array(given), expected, atol=1e-3)


def _body(group: Group) -> bytes:
    asked = {
        "criteria": group.criteria,
        "messages": [{"role": turn.role, "content": turn.content} for turn in group.prompt],
        "responses": [turns[0].content for turns in group.responses],
    }
    return json.dumps({"groups": [asked]}).encode()


if __name__ == "__main__":
    sys.exit(main())
