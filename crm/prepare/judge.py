"""Who judges. In: the settings of the judge. Out: an `Asker`, or nobody; names for topics; what a card says of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from crm.config_prepare import JudgeConfig
from crm.llm.asker import Asker, Request
from crm.llm.cache import ReplyCache
from crm.llm.endpoint import Endpoint
from crm.schema import Message
from crm.topics import naming

NAME_FORM = '\n\nReply with one JSON object of this form and nothing else: {"name": "<the name>"}'


class TopicName(BaseModel):
    """A reply that names a topic; `crm.topics.naming` checks the name itself."""

    model_config = ConfigDict(extra="forbid")

    name: str


def make_asker(judge: JudgeConfig, cache: Path) -> Asker | None:
    """The endpoint of the configuration with the key of the environment; ``None`` for the offline judge.

    Raises ``ValueError`` for an address or key that is none, and for a named variable that is not set.
    """
    if judge.name == "offline":
        return None
    if judge.key_variable != JudgeConfig.key_variable and not os.environ.get(judge.key_variable):
        # Without its value: somebody may have put the key itself there.
        raise ValueError(
            "judge.key_variable: no environment variable of that name is set; export it with the key, or leave the "
            "setting out for a server that wants none"
        )
    try:
        endpoint = Endpoint(
            base_url=str(judge.base_url),
            model=str(judge.model),
            api_key=os.environ.get(judge.key_variable) or None,
            temperature=judge.temperature,
            max_tokens=judge.max_tokens,
            concurrency=judge.concurrency,
            call_deadline_s=judge.call_deadline_s,
            total_deadline_s=judge.total_deadline_s,
            attempts=judge.attempts,
            budget_calls=judge.budget_calls,
            budget_tokens=judge.budget_tokens,
            json_schema=judge.json_schema,
        )
    except ValueError as error:
        raise ValueError(f"judge: {error}") from None
    return Asker(endpoint, ReplyCache(cache))


def ask_names(asker: Asker, prompts: list[str]) -> Sequence[str | None]:
    """The model's name for each prompt of `crm.topics.naming`; ``None`` where it gave none."""
    requests = [Request(str(index), (Message("user", text + NAME_FORM),)) for index, text in enumerate(prompts)]
    outcomes = asker.ask_all(requests, TopicName, [naming, sys.modules[__name__]])
    return [outcome.value.name if outcome.value else None for outcome in outcomes]


def what_is_asked(judge: JudgeConfig) -> dict[str, Any]:
    """Settings that change what an answer says; how fast and how often to ask is not among them."""
    return {
        name: getattr(judge, name) for name in ("name", "base_url", "model", "temperature", "max_tokens", "json_schema")
    }


def who(judge: JudgeConfig) -> str:
    """Where criteria come from, for the card."""
    if judge.name == "offline":
        return (
            "as the source gives them; where it gives none, a first guess from traits that can be counted "
            "(length, lists, questions and the like), which says nothing about why anybody voted"
        )
    return f"as the source gives them; where it gives none, written by {judge.model} (temperature {judge.temperature})"
