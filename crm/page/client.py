"""A Python client of the HTTP API. In: the address of a server. Out: its rankings and reasons, as plain data.

with LeaderboardClient("http://127.0.0.1:7860") as client:
    ranking = client.rank(criteria=["Prefers concise answers"])
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx


class LeaderboardError(RuntimeError):
    """What the server refused, in its own words."""


class LeaderboardClient:
    """``timeout`` is in seconds between two signs of life; a ranking of many queries has many of them."""

    def __init__(self, address: str, timeout: float = 60.0) -> None:
        self._http = httpx.Client(base_url=address, timeout=timeout)

    def __enter__(self) -> LeaderboardClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def bank(self) -> dict[str, Any]:
        """Models, topics with counts, the baseline, the judge."""
        return self._answer(self._http.get("/api/bank"))

    def steps(self, **profile: Any) -> Iterator[dict[str, Any]]:
        """Rankings on ever more queries. ``profile`` has the fields of `crm.page.profile.Profile`."""
        with self._http.stream("POST", "/api/rank", json=profile) as response:
            if response.status_code != 200:
                response.read()
                self._answer(response)
            for line in filter(None, response.iter_lines()):
                step = json.loads(line)
                if "error" in step:
                    raise LeaderboardError(step["error"])
                yield step

    def rank(self, **profile: Any) -> dict[str, Any]:
        """The complete ranking."""
        last: dict[str, Any] = {}
        for step in self.steps(**profile):
            last = step
        if not last.get("complete"):
            raise LeaderboardError("the ranking ended before it was complete; ask again, what was scored is kept")
        return last

    def compare(self, first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
        """Kendall's tau of two profiles that have been ranked, with its interval, and a row a model."""
        return self._answer(self._http.post("/api/compare", json={"first": first, "second": second}))

    def why(self, model: str, **profile: Any) -> list[dict[str, Any]]:
        """Every query that ``model`` was read on under a profile, the most clearly won first."""
        answer = self._answer(self._http.post("/api/why", json={"profile": profile, "model": model}))
        return list(answer["duels"])

    def picks(self, picks: Sequence[dict[str, Any]], *, seed: int, bank: str = "", **profile: Any) -> dict[str, Any]:
        """What picks so far say, and the next pair; ``bank`` is that of the answer before."""
        asked = {"profile": profile, "picks": list(picks), "seed": seed, "bank": bank}
        return self._answer(self._http.post("/api/picks", json=asked))

    def add_model(self, name: str, path: Path) -> dict[str, Any]:
        """Add a model by a file of its responses, for everybody on this server; ``token`` of the answer removes it."""
        asked = {"name": name, "file": path.name}
        with path.open("rb") as file:
            return self._answer(self._http.post("/api/models", params=asked, content=file))

    def remove_model(self, name: str, token: str) -> list[str]:
        """Take a model away that was added with this token; the names of those that are left."""
        asked = {"name": name, "token": token}
        return list(self._answer(self._http.delete("/api/models", params=asked))["models"])

    def _answer(self, response: httpx.Response) -> dict[str, Any]:
        try:
            answer = response.json()
        except ValueError:
            raise LeaderboardError(f"status {response.status_code}, and no JSON") from None
        if response.status_code != 200:
            raise LeaderboardError(str(answer.get("error", answer)))
        return dict(answer)
