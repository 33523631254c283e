"""Preferences between two answers to a query that are true by count."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import NamedTuple

from crm.criteria.traits import Trait
from crm.data.sampling import turn
from crm.schema import Preference
from experiments.real_judge.traits import TRAITS, wording

SENTENCES = 3
"""For one side of a trait, on one query."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query and its answers by LLM."""

    id: str
    text: str
    answers: Mapping[str, str]


class Side(NamedTuple):
    """A response, whose it is, and what a user cares about who prefers it."""

    text: str
    llm: str
    criteria: tuple[str, ...]


Tastes = tuple[tuple[str, int], ...]
"""Traits, and whether the user prefers more (1) or less (-1) of each."""


class Phrasing:
    """Puts tastes into a few drawn sentences, the same for a whole query: each sentence is read once for many pairs."""

    def __init__(self, rng: random.Random, words: str) -> None:
        self._rng, self._unseen = rng, words == "unseen"
        self._drawn: dict[tuple[str, int], list[str]] = {}

    def __call__(self, tastes: Tastes) -> tuple[str, ...]:
        """One sentence for each taste."""
        return tuple(self._rng.choice(self._sentences(taste)) for taste in tastes)

    def _sentences(self, taste: tuple[str, int]) -> list[str]:
        if taste not in self._drawn:
            found = wording(*taste)
            self._drawn[taste] = [found.draw(self._rng, unseen=self._unseen) for _ in range(SENTENCES)]
        return self._drawn[taste]


class PairFinder:
    """Draws tastes first and then two responses that differ in them, so that rare traits are asked as often."""

    def __init__(
        self, query: Query, llms: Sequence[str], traits: Sequence[Trait], rng: random.Random, smallest: float
    ) -> None:
        self._traits, self._rng, self._smallest = traits, rng, smallest
        self._pairs = list(permutations(llms, 2))
        measures = {llm: measured(query.answers[llm]) for llm in llms}
        self._gaps = {
            trait.name: {
                (one, other): (measures[one][trait.name] - measures[other][trait.name]) / trait.measure.clear
                for one, other in self._pairs
            }
            for trait in traits
        }

    def pair(self, names: Sequence[str]) -> tuple[str, str, Tastes] | None:
        """Two LLMs, and tastes about these traits under which the first wins; None where no pair differs enough."""
        tastes = tuple((name, self._rng.choice((1, -1))) for name in names)
        able = [pair for pair in self._pairs if self._balance(pair, tastes) >= self._smallest - 1e-9]
        return (*self._rng.choice(able), tastes) if able else None

    def _balance(self, pair: tuple[str, str], tastes: Tastes) -> float:
        """Threshold units by which the first wins under these tastes; not a number counts as no difference."""
        gaps = [sign * self._gaps[name][pair] for name, sign in tastes]
        return sum(gap for gap in gaps if gap == gap)


@cache
def measured(text: str) -> dict[str, float]:
    """What is counted in a text, by trait."""
    return {trait.name: trait.measure(text) for trait in TRAITS}


def whole_pair(
    identifier: str,
    query: Query,
    better: str,
    worse: str,
    tastes: Tastes,
    phrase: Phrasing,
    rng: random.Random,
) -> Preference:
    """The pair in a drawn order; the winner is a coin, since either side has a user who prefers it."""
    opposite = tuple((trait, -sign) for trait, sign in tastes)
    sides = [(better, phrase(tastes)), (worse, phrase(opposite))]
    rng.shuffle(sides)
    answered = [Side(query.answers[llm], llm, criteria) for llm, criteria in sides]
    return _preference(identifier, query, answered, rng.choice("ab"), tastes)


def degraded_pair(
    identifier: str,
    query: Query,
    better: str,
    worse: str,
    tastes: Tastes,
    phrase: Phrasing,
    rng: random.Random,
) -> Preference:
    """A whole response beside a degraded one, which no user prefers: only the winner's side has criteria."""
    whole, criteria = query.answers[better], phrase(tastes)
    kind = rng.choice(("empty", "cut", "stuffed"))
    if kind == "cut" and ("Length", -1) in tastes:
        kind = "stuffed"
    if kind == "stuffed":
        degraded = stuffed(rng, query.answers[worse], criteria)
    else:
        degraded = (cut if kind == "cut" else emptied)(rng, whole)
    sides = [Side(whole, better, criteria), Side(degraded, better if kind == "cut" else worse, ())]
    name = f"{identifier}-{kind}"
    if rng.random() < 0.5:
        return _preference(name, query, sides, "a", tastes)
    return _preference(name, query, sides[::-1], "b", tastes)


def _preference(identifier: str, query: Query, sides: Sequence[Side], winner: str, tastes: Tastes) -> Preference:
    """The record; a side without criteria has no topics either."""
    a, b = sides
    topics = tuple(trait for trait, _ in tastes)
    return Preference(
        id=identifier,
        prompt=turn("user", query.text),
        response_a=turn("assistant", a.text),
        response_b=turn("assistant", b.text),
        winner=winner,
        criteria_a=a.criteria,
        criteria_b=b.criteria,
        criteria_topics_a=topics if a.criteria else (),
        criteria_topics_b=topics if b.criteria else (),
        topic=topics[0],
        author_a=a.llm,
        author_b=b.llm,
        source="tastes/construction",
    )


def emptied(rng: random.Random, whole: str) -> str:
    """Next to nothing."""
    return rng.choice(("", " ", ".", "...", "\n", "-"))


def cut(rng: random.Random, whole: str) -> str:
    """The first tenth to half of the whole, ended anywhere."""
    return whole[: max(1, round(len(whole) * rng.uniform(0.1, 0.5)))]


def stuffed(rng: random.Random, worse: str, criteria: Sequence[str], most: int = 8) -> str:
    """A response with the criteria repeated 2 to ``most`` times before or after it."""
    text = " ".join([". ".join(criteria)] * rng.randint(2, most))
    return f"{text}\n\n{worse}" if rng.random() < 0.5 else f"{worse}\n\n{text}"
