"""Settings of a chat endpoint. In: plain values. Out: a checked, frozen `Endpoint` whose key is never printed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import httpx


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible endpoint, asked as ``POST <base_url>/chat/completions``, and how hard it may be used.

    ``base_url`` (usually ending in ``/v1``) belongs in a configuration, never in the hands of a web user. Raises
    ``ValueError`` naming the setting.
    """

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    """Sent as a bearer token; ``None`` for a server that wants none. No message shows it."""
    temperature: float | None = 0.0
    """0 to 2; ``None`` leaves it to the server."""
    max_tokens: int = 1024
    """Tokens of one reply at most; a reply that is cut there counts as truncated."""
    seed: int | None = 0
    """Sent along for servers that can repeat themselves; also draws the jitter of the pauses."""
    concurrency: int = 8
    """Requests under way at once; one that pauses before another attempt keeps its place."""
    call_deadline_s: float = 120.0
    """Seconds one call may take, its retries and pauses included."""
    total_deadline_s: float = 86_400.0
    """Seconds from the first request of an asker to its last."""
    attempts: int = 4
    """Times one call is sent at most."""
    backoff_s: float = 1.0
    """Pause after the first failed attempt, doubled after each further one, at most 60 s; half of it is jitter."""
    breaker: int = 10
    """After so many calls in a row without a reply of the model, an asker lets all others fail at once."""
    budget_calls: int = 0
    """HTTP requests at most, retries and repairs included, over the life of an asker; 0 sets no limit."""
    budget_tokens: int = 0
    """No request is sent once so many tokens (prompts and replies) are used up; 0 sets no limit. Those under way
    at that moment still finish, so up to ``concurrency`` requests can go beyond it."""
    json_schema: bool = False
    """Send the reply's JSON schema as ``response_format``. Some servers refuse requests that carry one."""

    def __post_init__(self) -> None:
        self._check_url()
        if not isinstance(self.model, str) or not self.model.strip():
            raise ValueError("model: empty; give the name under which the endpoint serves the model")
        self._check_key()
        for name, low, high in (("temperature", 0, 2), ("seed", 0, 2**31 - 1)):
            if getattr(self, name) is not None:
                self._check_range(name, low, high)
        for name in ("max_tokens", "breaker"):
            self._check_range(name, 1, 10**6)
        self._check_range("concurrency", 1, 256)
        self._check_range("attempts", 1, 20)
        for name in ("call_deadline_s", "total_deadline_s"):
            self._check_range(name, 0.01, 10**8)
        for name in ("backoff_s", "budget_calls", "budget_tokens"):
            self._check_range(name, 0, 10**12)

    @property
    def url(self) -> str:
        """Where requests are sent."""
        return self.base_url.rstrip("/") + "/chat/completions"

    def parameters(self) -> dict[str, Any]:
        """What a request says besides its messages; ``None`` is left out."""
        values = {
            "model": self.model,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "seed": self.seed,
        }
        return {name: value for name, value in values.items() if value is not None}

    def _check_url(self) -> None:
        """Messages do not repeat the address: a secret may stand in it."""
        try:
            url = httpx.URL(self.base_url)
            valid = url.scheme in ("http", "https") and bool(url.host) and (url.port or 1) in range(1, 65536)
        except (httpx.InvalidURL, TypeError):
            valid = False
        if not valid or any(map(str.isspace, self.base_url)):
            raise ValueError("base_url: not an address; write one such as http://127.0.0.1:8000/v1")
        if url.userinfo or url.query or url.fragment:
            raise ValueError(
                "base_url: holds a user, password, query or fragment; give the bare address, and an api_key"
            )

    def _check_key(self) -> None:
        key = self.api_key
        if key is not None and not (isinstance(key, str) and key and all("!" <= char <= "~" for char in key)):
            raise ValueError("api_key: empty, or holds spaces, line ends or non-ASCII characters; check how it was set")

    def _check_range(self, name: str, low: float, high: float) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"{name}: {value!r} is not a number from {low} to {high}")
        if not low <= value <= high:
            raise ValueError(f"{name}: {value} is out of range, give {low} to {high}")
