"""How long people wait for rankings. In: overrides of ``app.py``. Out: seconds for one person, and for 40 at once.

``python -m bench.app checkpoint=<run>/model``: the server in a process of its own, asked over HTTP.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psutil

from crm.io.installed import commit
from crm.page import LeaderboardClient
from crm.page.scoring_queue import IDLE_S
from crm.report.tables import caption, markdown_text

PEOPLE = 40
CRITERIA = ("Prefers concise answers", "Prefers detailed answers", "Prefers bulleted lists", "Prefers flowing prose")


def main(arguments: list[str] | None = None) -> int:
    """Command line: overrides of ``app.py``."""
    parser = argparse.ArgumentParser(prog="python -m bench.app", description=__doc__.splitlines()[0])
    parser.add_argument("overrides", nargs="+", help="of app.py, such as checkpoint=<run>/model")
    parser.add_argument("--port", type=int, default=7899)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        words = [*options.overrides, f"port={options.port}", f"predictions={folder}", "requests_per_minute=100000"]
        command = [sys.executable, "app.py", *words, f"hydra.run.dir={folder}/run"]
        process = subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"})  # noqa: S603 - our own script
        try:
            rows = measure(f"http://127.0.0.1:{options.port}", psutil.Process(process.pid))
        finally:
            process.terminate()
            process.wait()
    import pandas as pd

    print(markdown_text(pd.DataFrame(rows), caption(None, (), "bench.app " + " ".join(options.overrides), commit())))
    return 0


def measure(address: str, server: psutil.Process) -> list[dict[str, Any]]:
    """A row a question."""
    _wait(address)
    first, complete, n = _one(address, [CRITERIA[0]])
    _, again, _ = _one(address, [CRITERIA[0]])
    list(ThreadPoolExecutor(8).map(lambda n: _one(address, [f"warm up {n}"], stop_at=30), range(8)))
    memory = [_memory(server)]
    started = time.perf_counter()
    found = _crowd(address, 0)
    crowd, free = time.perf_counter() - started, _free(address)
    memory.append(_memory(server))
    found += _crowd(address, 1)
    memory.append(_memory(server))
    firsts = [seconds for seconds, _ in found]
    return [
        {"what": f"first ranking of {n} queries, one person", "value": f"{first:.2f} s"},
        {"what": "complete", "value": f"{complete:.1f} s"},
        {"what": "the same criteria again", "value": f"{again:.2f} s"},
        {"what": f"{PEOPLE} people at once, half of them leaving: all served", "value": f"{crowd:.0f} s"},
        {
            "what": "their first ranking, median and last",
            "value": f"{statistics.median(firsts):.1f}, {max(firsts):.1f} s",
        },
        {"what": "answers under somebody else's criteria", "value": str(sum(not own for _, own in found))},
        {"what": "the place of the last who left is free after", "value": f"{free:.1f} s"},
        {"what": f"{2 * IDLE_S:g} s later memory has grown by", "value": f"{(memory[1] - memory[0]) / 1e6:.0f} MB"},
        {"what": "and by another such crowd, with other criteria", "value": f"{(memory[2] - memory[1]) / 1e6:.0f} MB"},
    ]


def _wait(address: str) -> None:
    for _ in range(600):
        try:
            httpx.get(f"{address}/api/health").raise_for_status()
            return
        except httpx.HTTPError:
            time.sleep(0.2)
    raise SystemExit("bench.app: the server did not start")


def _one(address: str, criteria: list[str], stop_at: int = 10**9) -> tuple[float, float, int]:
    """Seconds to the first ranking and to the last, and the number of queries; leaves after ``stop_at`` queries."""
    started, first, total = time.perf_counter(), 0.0, 0
    with LeaderboardClient(address) as client:
        for step in client.steps(criteria=criteria):
            assert step["criteria"] == criteria
            total = step["total"]
            if step["leaderboard"] and not first:
                first = time.perf_counter() - started
            if step["done"] >= stop_at:
                break
    return first, time.perf_counter() - started, total


def _crowd(address: str, which: int) -> list[tuple[float, bool]]:
    """What `_person` says of everybody, all at once."""
    with ThreadPoolExecutor(PEOPLE) as pool:
        return list(pool.map(lambda n: _person(address, n), range(which * PEOPLE, (which + 1) * PEOPLE)))


def _person(address: str, number: int) -> tuple[float, bool]:
    """Seconds to the first ranking, and whether all answers were under this person's own criteria."""
    criteria = [CRITERIA[number % 4], f"I am number {number}"]
    try:
        first, _, _ = _one(address, criteria, stop_at=20 if number % 2 else 10**9)
    except AssertionError:
        return 0.0, False
    return first, True


def _memory(server: psutil.Process) -> int:
    """Resident bytes when the server has been idle for a while."""
    time.sleep(2 * IDLE_S)
    return int(server.memory_info().rss)


def _free(address: str) -> float:
    """Seconds until nobody is in the line."""
    started = time.perf_counter()
    while httpx.get(f"{address}/api/health").json()["in_line"]:
        time.sleep(0.05)
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
