"""Settings of a chat endpoint. In: composed values and a key from the environment. Out: an `Endpoint`."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Any

from crm.config import Settings, setting
from crm.io.chat.endpoint import Endpoint


@dataclass
class EndpointConfig(Settings, group="endpoint"):
    """An OpenAI-compatible chat endpoint and how hard it may be used."""

    base_url: str | None = None
    """Of any OpenAI-compatible endpoint, such as http://127.0.0.1:8000/v1."""
    model: str | None = None
    key_variable: str = "CRM_API_KEY"
    """Environment variable that holds the key; a server that wants none needs none."""
    temperature: float = setting(0.0, at_least=0, at_most=2)
    max_tokens: int = setting(1024, at_least=1)
    """Tokens of one reply at most."""
    concurrency: int = setting(8, at_least=1)
    """Requests at once."""
    call_deadline_s: float = setting(120.0, above=0, unit="seconds")
    """Seconds for one call with its retries."""
    total_deadline_s: float = setting(86_400.0, above=0, unit="seconds")
    """Seconds for all calls of a run."""
    attempts: int = setting(4, at_least=1)
    budget_calls: int = setting(0, at_least=0, zero="no limit")
    """HTTP requests at most in one run."""
    budget_tokens: int = setting(0, at_least=0, zero="no limit")

    def need(self, option: str) -> None:
        """Raise ``ValueError`` unless an endpoint is named; ``option`` of the group is what makes one necessary."""
        for name in ("base_url", "model"):
            self.require(getattr(self, name), name, f"a value for {self._prefix[:-1]}={option}")


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
    names = {each.name for each in fields(EndpointConfig)} - {"key_variable"}
    shared: dict[str, Any] = {name: getattr(settings, name) for name in names}
    try:
        return Endpoint(**shared, api_key=os.environ.get(settings.key_variable) or None, json_schema=json_schema)
    except ValueError as error:
        raise ValueError(f"{group}: {error}") from None
