"""Two rated responses become a `Preference`: an aspect speaks for the side rated higher on it.

Which side is A is drawn; a side's criteria are one wording of each of its aspects. Where aspects disagree the pair
**flips**: who wins depends on the criterion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TypeVar

from crm.data.fields import Conversation
from crm.data.public.pairs import Side, Wordings, read_wordings, two_sided
from crm.io.draws import fraction, grouped, shuffled
from crm.schema import Preference

EQUAL = 1e-9
"""Ratings are means of few raters: differences below this are rounding."""
T = TypeVar("T")


def wordings_of(name: str) -> dict[str, tuple[str, ...]]:
    """The wordings of a set's criteria, by aspect."""
    return read_wordings(Path(__file__).with_name("wordings.yaml"))[name]


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


def flips(row: Preference) -> bool:
    """Whether who wins depends on the criterion: both sides have criteria that speak for them."""
    return bool(row.criteria_a and row.criteria_b)
