"""Pairs of rated responses. In: two responses with a rating for each aspect. Out: the `Preference` that ratings make.

An aspect speaks for the side rated higher on it; a side's criteria are one wording of each of its aspects. Where
aspects disagree the pair **flips**: who wins depends on the criterion. ``winner`` is the side with the higher overall
rating (where there is none, the higher mean over the aspects); where that is equal a flip pair gets a seeded coin,
since there it only names which direction is called original, and any other pair is a tie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

from crm.schema import Message, Preference
from crm.votes.sampling import fraction, shuffled, turn

EQUAL = 1e-9
"""Ratings are means of few raters: differences below this are rounding."""
T = TypeVar("T")
Wordings = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Rated:
    """A response and its ratings, by aspect; ``overall`` where the raters gave one. Any unit, higher is better."""

    text: str
    author: str | None
    scores: Mapping[str, float]
    overall: float | None = None


@dataclass(frozen=True, slots=True)
class RatedInPlace:
    """A rated response and what it answers; ``group`` names the document or dialogue whose responses are compared."""

    group: str
    prompt: tuple[Message, ...]
    rated: Rated


def pairs_within(items: Iterable[T], group: Callable[[T], str]) -> Iterator[tuple[T, T]]:
    """Every two items of one group, in their order."""
    groups: dict[str, list[T]] = {}
    for item in items:
        groups.setdefault(group(item), []).append(item)
    for members in groups.values():
        yield from combinations(members, 2)


def rated_pair(
    name: str,
    prompt: tuple[Message, ...],
    first: Rated,
    second: Rated,
    wordings: Wordings,
    *,
    source: str,
    topic: str | None = None,
    seed: int = 0,
    worded_for: str | None = None,
) -> Preference:
    """The record of two responses rated on the same aspects, keys of ``wordings``.

    ``name`` becomes the id, and with ``seed`` decides which response stands as A and which wordings are taken (those by
    ``worded_for`` where it is given).
    """
    a, b = (first, second) if fraction(seed, name, "side") < 0.5 else (second, first)
    gaps = {aspect: a.scores[aspect] - b.scores[aspect] for aspect in a.scores if aspect in b.scores}
    for_a = shuffled((aspect for aspect in gaps if gaps[aspect] > EQUAL), seed, name, "a")
    for_b = shuffled((aspect for aspect in gaps if gaps[aspect] < -EQUAL), seed, name, "b")
    return Preference(
        id=name,
        prompt=prompt,
        response_a=turn("assistant", a.text),
        response_b=turn("assistant", b.text),
        winner=_winner(_overall(a, b, gaps), bool(for_a and for_b), fraction(seed, name, "winner")),
        criteria_a=tuple(shuffled(wordings[aspect], seed, worded_for or name)[0] for aspect in for_a),
        criteria_b=tuple(shuffled(wordings[aspect], seed, worded_for or name)[0] for aspect in for_b),
        topic=topic,
        criteria_topics_a=tuple(for_a),
        criteria_topics_b=tuple(for_b),
        author_a=a.author,
        author_b=b.author,
        source=source,
    )


def flips(row: Preference) -> bool:
    """Whether who wins depends on the criterion: both sides have criteria that speak for them."""
    return bool(row.criteria_a and row.criteria_b)


def _overall(a: Rated, b: Rated, gaps: Mapping[str, float]) -> float:
    if a.overall is not None and b.overall is not None:
        return a.overall - b.overall
    return sum(gaps.values())


def _winner(gap: float, flip: bool, coin: float) -> str:
    if abs(gap) > EQUAL:
        return "a" if gap > 0 else "b"
    if flip:
        return "a" if coin < 0.5 else "b"
    return "tie"
