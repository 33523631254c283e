"""Settings of whoever is asked: a chat endpoint, the judges of ``evaluate.py``. Out: values in range, or an error."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from crm.config_groups import one_of, require
from crm.llm.endpoint import Endpoint

JUDGES = ("crm", "reward_model", "pair_ranker", "llm", "length", "coin", "oracle")
CRITERIA_PLACES = ("system", "user", "none")
VERDICTS = ("text", "logprobs")


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


@dataclass
class JudgeConfig(EndpointConfig):
    """Who answers ``preference_logit``. What an option does not use it ignores, so that a sweep can name several.

    ``crm`` reads ``checkpoint``; ``reward_model`` and ``pair_ranker`` read ``path``; ``llm`` asks an endpoint;
    ``length``, ``coin`` and ``oracle`` are controls.
    """

    name: str = "crm"
    path: str | None = None
    """Folder or hub id of a model that gives one score (``reward_model``) or compares two (``pair_ranker``)."""
    revision: str | None = None
    """Commit or tag of a hub id; the newest where null."""
    criteria_in: str = "system"
    """Where a hub model is told the criteria: in a ``system`` turn, before the query (``user``), nowhere (``none``)."""
    max_length: int = 2048
    """Tokens of one sequence of a hub model at most; a longer comparison is left out and counted."""
    verdict: str = "text"
    """Of ``llm``: the last line of its reply, or the probabilities of the answer's first token (``logprobs``)."""

    def __post_init__(self) -> None:
        one_of("judge.name", self.name, JUDGES)
        one_of("judge.criteria_in", self.criteria_in, CRITERIA_PLACES)
        one_of("judge.verdict", self.verdict, VERDICTS)
        require(self.max_length >= 16, "judge.max_length", self.max_length, "16 or more")
        if self.name in ("reward_model", "pair_ranker"):
            require(bool(self.path), "judge.path", self.path, f"a folder or hub id for judge={self.name}")
        if self.name == "llm":
            self.check("judge", "llm")
