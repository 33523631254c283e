"""Ask a running server for rankings and reasons, as plain data.

with LeaderboardClient("http://127.0.0.1:7860") as client:
    ranking = client.rank(criteria=["Prefers concise answers"])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx


class LeaderboardError(RuntimeError):
    """The server answered with an error; the message is the server's."""


class LeaderboardClient:
    """A client of the server at ``address``; ``timeout`` is in seconds."""

    def __init__(self, address: str, timeout: float = 60.0) -> None:
        self._http = httpx.Client(base_url=address, timeout=timeout)

    def __enter__(self) -> LeaderboardClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def bank(self) -> dict[str, Any]:
        """Models, topics with counts, the baseline, the judge."""
        return self._ask("GET", "bank")

    def rank(self, **profile: Any) -> dict[str, Any]:
        """The ranking for a profile, which has the fields of `crm.page.profile.Profile`."""
        return self._ask("POST", "rank", profile)

    def compare(self, first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
        """Kendall's tau of the rankings of two profiles, with its interval, and a row a model."""
        return self._ask("POST", "compare", {"first": first, "second": second})

    def why(self, model: str, **profile: Any) -> list[dict[str, Any]]:
        """Every query that ``model`` was read on under a profile, the most clearly won first."""
        return list(self._ask("POST", "why", {"profile": profile, "model": model})["duels"])

    def picks(self, picks: Sequence[dict[str, Any]], *, seed: int, bank: str = "", **profile: Any) -> dict[str, Any]:
        """What picks so far say, and the next pair; ``bank`` is that of the answer before."""
        return self._ask("POST", "picks", {"profile": profile, "picks": list(picks), "seed": seed, "bank": bank})

    def _ask(self, method: str, route: str, body: Any = None) -> dict[str, Any]:
        response = self._http.request(method, f"/api/{route}", json=body)
        try:
            answer = response.json()
        except ValueError:
            raise LeaderboardError(f"status {response.status_code}, and no JSON") from None
        if response.status_code != 200:
            raise LeaderboardError(str(answer.get("error", answer)))
        return dict(answer)
