"""Two responses become a `Preference`: a chosen one and another, or two that were rated.

Which side is A is drawn. Of rated responses, an aspect speaks for the side rated higher on it; a side's criteria are
one wording of each of its aspects. Where aspects disagree the pair **flips**: who wins depends on the criterion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

import yaml

from crm.data.fields import Conversation, PublicRow, Text
from crm.io.draws import fraction, grouped, shuffled, turn
from crm.schema import Preference

EQUAL = 1e-9
"""Ratings are means of few raters: differences below this are rounding."""
OTHER = {"a": "b", "b": "a", "tie": "tie"}
T = TypeVar("T")
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


@dataclass(frozen=True, slots=True)
class Rated:
    """A response and its ratings, by aspect; ``overall`` where the raters gave one. Any unit, higher is better."""

    text: str
    author: str | None
    scores: Mapping[str, float]
    overall: float | None = None


def pairs_within(items: Iterable[T], group: Callable[[T], str]) -> Iterator[tuple[T, T]]:
    """Every two items of one group, in their order."""
    for members in grouped(items, group).values():
        yield from combinations(members, 2)


def rated_pair(
    name: str,
    prompt: Conversation,
    first: Rated,
    second: Rated,
    bank: Wordings,
    *,
    source: str,
    topic: str | None = None,
    seed: int = 0,
) -> Preference:
    """The record of two responses rated on the same aspects, keys of ``bank``.

    ``winner`` is the side with the higher overall rating (where there is none, the higher mean over the aspects); where
    that is equal a flip pair gets a seeded coin, since there it only names the original direction, and any other pair
    is a tie. Draws are by ``seed`` and ``name``, the id.
    """
    a, b = (first, second) if fraction(seed, name, "side") < 0.5 else (second, first)
    gaps = {aspect: a.scores[aspect] - b.scores[aspect] for aspect in a.scores if aspect in b.scores}
    for_a = shuffled((aspect for aspect in gaps if gaps[aspect] > EQUAL), seed, name, "a")
    for_b = shuffled((aspect for aspect in gaps if gaps[aspect] < -EQUAL), seed, name, "b")
    gap = sum(gaps.values()) if a.overall is None or b.overall is None else a.overall - b.overall
    coin = "a" if fraction(seed, name, "winner") < 0.5 else "b"
    winner = "a" if gap > EQUAL else "b" if gap < -EQUAL else coin if for_a and for_b else "tie"

    def side(rated: Rated, aspects: list[str]) -> Side:
        criteria = tuple(shuffled(bank[aspect], seed, name)[0] for aspect in aspects)
        return rated.text, criteria, tuple(aspects), rated.author

    return two_sided(name, prompt, side(a, for_a), side(b, for_b), winner, source, topic=topic)


def aspects_of(row: Preference) -> str:
    """What both sides' criteria are about."""
    return "+".join(sorted(row.criteria_topics_a + row.criteria_topics_b))


def flips(row: Preference) -> bool:
    """Whether who wins depends on the criterion: both sides have criteria that speak for them."""
    return bool(row.criteria_a and row.criteria_b)
