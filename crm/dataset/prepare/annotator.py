"""Who annotates. In: the annotator's settings. Out: an `Asker`, or nobody; names for topics; what a card says."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from crm.criteria.topics import naming
from crm.dataset.prepare.config import AnnotatorConfig
from crm.io.chat.asker import Asker, Request
from crm.io.chat.cache import ReplyCache
from crm.io.chat.config import make_endpoint
from crm.schema import Message

NAME_FORM = '\n\nReply with one JSON object of this form and nothing else: {"name": "<the name>"}'


class TopicName(BaseModel):
    """A reply that names a topic; `crm.criteria.topics.naming` checks the name itself."""

    model_config = ConfigDict(extra="forbid")

    name: str


def make_asker(annotator: AnnotatorConfig, cache: Path) -> Asker | None:
    """The endpoint of the configuration with the key of the environment; ``None`` for the offline annotator.

    Raises ``ValueError`` for an address or key that is none, and for a named variable that is not set.
    """
    if annotator.name == "offline":
        return None
    endpoint = make_endpoint(annotator, "annotator", json_schema=annotator.json_schema)
    return Asker(endpoint, ReplyCache(cache))


def ask_names(asker: Asker, prompts: list[str]) -> Sequence[str | None]:
    """The model's name for each prompt of `crm.criteria.topics.naming`; ``None`` where it gave none."""
    requests = [Request(str(index), (Message("user", text + NAME_FORM),)) for index, text in enumerate(prompts)]
    outcomes = asker.ask_all(requests, TopicName, [naming, sys.modules[__name__]])
    return [outcome.value.name if outcome.value else None for outcome in outcomes]


def what_is_asked(annotator: AnnotatorConfig) -> dict[str, Any]:
    """Settings that change what an answer says; how fast and how often to ask is not among them."""
    return {
        name: getattr(annotator, name)
        for name in ("name", "base_url", "model", "temperature", "max_tokens", "json_schema")
    }


def who(annotator: AnnotatorConfig) -> str:
    """Where criteria come from, for the card."""
    if annotator.name == "offline":
        return (
            "as the source gives them; where it gives none, a first guess from traits that can be counted "
            "(length, lists, questions and the like), which says nothing about why anybody voted"
        )
    wrote = f"{annotator.model} (temperature {annotator.temperature})"
    return f"as the source gives them; where it gives none, written by {wrote}"
