"""Two responses become a `Preference`; which is A may be drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from crm.data.fields import Conversation, PublicRow, Text
from crm.io.draws import fraction, turn
from crm.schema import Preference

OTHER = {"a": "b", "b": "a", "tie": "tie"}
Wordings = Mapping[str, Sequence[str]]
Side = tuple[str | Conversation, tuple[str, ...], tuple[str, ...], str | None]
"""A response, its criteria, their topics, its author."""


class Answer(PublicRow):
    """One answer of an LLM, as AlpacaEval's files have it."""

    instruction: Text
    output: str


@cache
def read_wordings(path: Path) -> dict[str, dict[str, tuple[str, ...]]]:
    """The wordings of criteria, by set and by what they ask for."""
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {name: {key: tuple(texts) for key, texts in bank.items()} for name, bank in found.items()}


def wordings_of(name: str) -> dict[str, tuple[str, ...]]:
    """The wordings of a public set's criteria, by what they ask for, from wordings.yaml."""
    return read_wordings(Path(__file__).with_name("wordings.yaml"))[name]


def two_sided(
    name: str, prompt: str | Conversation, a: Side, b: Side, winner: str, source: str, **more: Any
) -> Preference:
    """The record of two sides; a text is one turn."""
    (first, criteria_a, topics_a, author_a), (second, criteria_b, topics_b, author_b) = a, b
    return Preference(
        id=name,
        prompt=turn("user", prompt) if isinstance(prompt, str) else prompt,
        response_a=turn("assistant", first) if isinstance(first, str) else first,
        response_b=turn("assistant", second) if isinstance(second, str) else second,
        winner=winner,
        criteria_a=criteria_a,
        criteria_b=criteria_b,
        criteria_topics_a=topics_a,
        criteria_topics_b=topics_b,
        author_a=author_a,
        author_b=author_b,
        source=source,
        **more,
    )


def chosen_pair(
    name: str,
    prompt: str | Conversation,
    chosen: str | Conversation,
    rejected: str | Conversation,
    *,
    source: str,
    authors: tuple[str | None, str | None] = (None, None),
    criteria: tuple[str, ...] = (),
    criteria_rejected: tuple[str, ...] = (),
    criteria_topic: str | None = None,
    first: bool | None = None,
    winner: str = "a",
    **more: Any,
) -> Preference:
    """The record of a chosen and a rejected response; ``authors`` are theirs, ``criteria`` speak for the chosen one.

    ``criteria_topic`` is that of each of ``criteria``. The chosen one is A if it is ``first``; ``None`` draws.
    ``winner`` is who wins where the chosen one is A.
    """
    first = fraction(0, name, "side") < 0.5 if first is None else first
    topics = () if criteria_topic is None else (criteria_topic,) * len(criteria)
    one: Side = (chosen, criteria, topics, authors[0])
    other: Side = (rejected, criteria_rejected, (), authors[1])
    a, b = (one, other) if first else (other, one)
    return two_sided(name, prompt, a, b, winner if first else OTHER[winner], source, **more)


def aspects_of(row: Preference) -> str:
    """What both sides' criteria are about."""
    return "+".join(sorted(row.criteria_topics_a + row.criteria_topics_b))
