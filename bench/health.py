"""How soon a server answers its health check while others load it.

``python -m bench.health http://127.0.0.1:8000 60``: a process of its own, so that what clients do with their answers
does not count.
"""

from __future__ import annotations

import json
import sys
import time

import httpx

EVERY_S = 0.1


def main(arguments: list[str]) -> None:
    """Print a JSON list."""
    address, seconds = arguments[0], float(arguments[1])
    taken, ends = [], time.perf_counter() + seconds
    with httpx.Client(base_url=address, timeout=120) as http:
        while time.perf_counter() < ends:
            started = time.perf_counter()
            http.get("/health").raise_for_status()
            taken.append(time.perf_counter() - started)
            time.sleep(EVERY_S)
    print(json.dumps(taken))


if __name__ == "__main__":
    main(sys.argv[1:])
