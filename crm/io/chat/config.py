"""Settings of a chat endpoint. In: composed values and a key from the environment. Out: an `Endpoint`."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from crm.config import require
from crm.io.chat.endpoint import Endpoint


@dataclass
class EndpointConfig:
    """An OpenAI-compatible chat endpoint and how hard it may be used."""

    base_url: str | None = None
    """Of any OpenAI-compatible endpoint, such as http://127.0.0.1:8000/v1."""
    model: str | None = None
    key_variable: str = "CRM_API_KEY"
    """Environment variable that holds the key; a server that wants none needs none."""
    temperature: float = 0.0
    max_tokens: int = 1024
    """Tokens of one reply at most."""
    concurrency: int = 8
    """Requests at once."""
    call_deadline_s: float = 120.0
    """Seconds for one call with its retries."""
    total_deadline_s: float = 86_400.0
    """Seconds for all calls of a run."""
    attempts: int = 4
    budget_calls: int = 0
    """HTTP requests at most in one run; 0 is no limit."""
    budget_tokens: int = 0

    def check(self, group: str, option: str) -> None:
        """Raise ``ValueError`` for a value out of range; ``group=option`` is what makes an endpoint necessary."""
        for name in ("base_url", "model"):
            require(bool(getattr(self, name)), f"{group}.{name}", getattr(self, name), f"a value for {group}={option}")
        for name in ("max_tokens", "concurrency", "attempts"):
            require(getattr(self, name) >= 1, f"{group}.{name}", getattr(self, name), "1 or more")
        for name in ("budget_calls", "budget_tokens"):
            require(getattr(self, name) >= 0, f"{group}.{name}", getattr(self, name), "0 (no limit) or more")
        for name in ("call_deadline_s", "total_deadline_s"):
            require(0 < getattr(self, name) < math.inf, f"{group}.{name}", getattr(self, name), "seconds above 0")
        require(0 <= self.temperature <= 2, f"{group}.temperature", self.temperature, "0 to 2")


def make_endpoint(settings: EndpointConfig, group: str, *, json_schema: bool = False) -> Endpoint:
    """The endpoint of the configuration with the key of the environment.

    Raises ``ValueError`` for an address or key that is none, and for a named variable that is not set.
    """
    if settings.key_variable != EndpointConfig.key_variable and not os.environ.get(settings.key_variable):
        # Without its value: somebody may have put the key itself there.
        raise ValueError(
            f"{group}.key_variable: no environment variable of that name is set; export it with the key, or leave the "
            "setting out for a server that wants none"
        )
    try:
        return Endpoint(
            base_url=str(settings.base_url),
            model=str(settings.model),
            api_key=os.environ.get(settings.key_variable) or None,
            temperature=settings.temperature,
            max_tokens=settings.max_tokens,
            concurrency=settings.concurrency,
            call_deadline_s=settings.call_deadline_s,
            total_deadline_s=settings.total_deadline_s,
            attempts=settings.attempts,
            budget_calls=settings.budget_calls,
            budget_tokens=settings.budget_tokens,
            json_schema=json_schema,
        )
    except ValueError as error:
        raise ValueError(f"{group}: {error}") from None
