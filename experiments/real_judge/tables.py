"""Tables of comparisons, one a training step, drawn from queries, responses and traits.

A step asks a few queries by many sentences: of each sentence as many pairs, so that rare traits count as much as common
ones. A target says how sure the count is: where two responses differ by g threshold units in the criterion's favour,
the first is preferred with probability sigmoid(`STEEPNESS` g).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crm.criteria.traits import Trait
from crm.data.sampling import turn
from crm.io.draws import generator
from crm.schema import Message
from experiments.real_judge.pairs import Query, cut, emptied, measured, stuffed
from experiments.real_judge.traits import wording

QUERIES, RESPONSES, PAIRS = {False: 5, True: 12}, {False: 8, True: 12}, {False: 288, True: 96}
"""Of a table without and with words: queries; responses to each; pairs of a side or sentence, at most."""
SENTENCES = 12
"""For each side of each trait."""
SMALLEST, STEEPNESS = 0.5, 3.0
NEAR = 0.5
"""Pairs of a sentence that hardly differ in its trait, a share of `PAIRS`: without them whatever else two responses
differ by may move a score, which leaderboards show and suites do not."""
DEGRADED, WHOLE_WINS = 3, 0.95
"""How many responses of a table are emptied, cut and stuffed; how likely a whole one is preferred to them."""
DEGRADED_SHARE = 0.2
"""Of the sentences, those that a degraded response is compared in with the whole one that it was made of."""
MOST_STUFFED = 20
"""How often a stuffed response repeats a sentence, at most."""


class Sentence(NamedTuple):
    """A sentence of a table, the trait that it is about and whether it asks for more (1) or less (-1)."""

    text: str
    trait: int
    sign: int


@dataclass(frozen=True)
class ComparisonTable:
    """B comparisons of U conversations, each by one of V criteria, or by a vector that has no words."""

    conversations: Sequence[tuple[tuple[Message, ...], tuple[Message, ...]]]
    """Prompt and response"""
    criteria: Sequence[str]
    shown: NDArray[np.int64]
    """(B, 2) in [0, U): the response shown first and the one shown second"""
    asked: NDArray[np.int64]
    """(B,) in [0, V), or without criteria in [0, `TasteTables.vectors`)"""
    target: NDArray[np.float32]
    """(B,) in [0, 1]: probability that the response shown first is preferred"""


class Rows:
    """Texts and comparisons as they come."""

    def __init__(self) -> None:
        self.conversations: list[tuple[Query, str]] = []
        self._parts: list[tuple[NDArray[Any], ...]] = []

    def add(self, better: ArrayLike, worse: ArrayLike, asked: ArrayLike, sure: ArrayLike) -> None:
        """Comparisons, each or all of one number, which the first wins with probability ``sure``."""
        self._parts.append(tuple(np.broadcast_arrays(better, worse, asked, sure)))

    def table(self, sentences: Sequence[Sentence] | None, rng: np.random.Generator) -> ComparisonTable:
        """All of them, either side first as often as not."""
        better, worse, asked, sure = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        pairs = np.stack([better, worse], axis=1).astype(np.int64)
        swapped = rng.random(len(pairs)) < 0.5
        pairs[swapped] = pairs[swapped, ::-1]
        return ComparisonTable(
            [(turn("user", query.text), turn("assistant", text)) for query, text in self.conversations],
            [text for text, _, _ in sentences or ()],
            pairs,
            asked.astype(np.int64),
            np.where(swapped, 1 - sure, sure).astype(np.float32),
        )


class TasteTables:
    """Tables by number. ``llms`` are, for each query, those whose responses are drawn from."""

    def __init__(
        self, queries: Sequence[Query], llms: Sequence[Sequence[str]], traits: Sequence[Trait], seed: int
    ) -> None:
        self._asked = [(query, names) for query, names in zip(queries, llms, strict=True) if len(names) > 1]
        self._traits, self._seed = traits, seed
        self.vectors = 2 * len(traits)

    def __call__(self, number: int, *, in_words: bool) -> ComparisonTable:
        """Every query once before any is asked again; responses, sentences and pairs drawn for this table."""
        rng = generator(self._seed, number, "", f"tables {in_words}")
        rows, sentences = Rows(), self._sentences(rng, SENTENCES if in_words else 1)
        for query, names in self._queries(number, QUERIES[in_words]):
            drawn = rng.sample(list(names), min(RESPONSES[in_words], len(names)))
            rows.conversations += [(query, query.answers[name]) for name in drawn]
        of_numpy = np.random.default_rng(rng.getrandbits(64))
        pairs, gaps = self._gaps(rows.conversations)
        most = PAIRS[in_words]
        for index, (_, trait, sign) in enumerate(sentences):
            # A measure that is not a number differs from none.
            able = np.flatnonzero(np.abs(gaps[:, trait]) >= SMALLEST)
            near = np.flatnonzero(np.abs(gaps[:, trait]) < SMALLEST)
            taken = np.concatenate((of_numpy.permutation(able)[:most], of_numpy.permutation(near)[: int(NEAR * most)]))
            better, worse = pairs[taken].T
            rows.add(better, worse, index, 1 / (1 + np.exp(-STEEPNESS * sign * gaps[taken, trait])))
        self._add_degraded(rows, sentences, pairs, gaps, rng)
        return rows.table(sentences if in_words else None, of_numpy)

    def _queries(self, number: int, count: int) -> list[tuple[Query, Sequence[str]]]:
        """The ``count`` queries of a table, in orders drawn anew in each epoch."""
        count = min(count, len(self._asked))
        epoch, place = divmod(number, len(self._asked) // count)
        order = list(self._asked)
        generator(self._seed, epoch, "", "tables order").shuffle(order)
        return order[place * count : (place + 1) * count]

    def _sentences(self, rng: random.Random, count: int) -> list[Sentence]:
        """``count`` sentences for each side of each trait; with a count of 1 their numbers are those of the sides."""
        return [
            Sentence(text, index, sign)
            for index, trait in enumerate(self._traits)
            for sign in (1, -1)
            for text in wording(trait.name, sign).sample(rng, count)
        ]

    def _gaps(self, conversations: Sequence[tuple[Query, str]]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Pairs (P, 2) of responses to one query, and by how many threshold units the first has more, (P, traits)."""
        counted = [measured(text) for _, text in conversations]
        units = np.array([[row[trait.name] / trait.measure.clear for trait in self._traits] for row in counted])
        pairs = np.array(
            [
                (one, other)
                for one, other in combinations(range(len(conversations)), 2)
                if conversations[one][0] is conversations[other][0]
            ]
        )
        return pairs, units[pairs[:, 0]] - units[pairs[:, 1]]

    def _add_degraded(
        self,
        rows: Rows,
        sentences: Sequence[Sentence],
        pairs: NDArray[np.int64],
        gaps: NDArray[np.float64],
        rng: random.Random,
    ) -> None:
        """Responses that nobody prefers, beside whole ones."""
        whole = len(rows.conversations)
        for degrade in (emptied, cut) * DEGRADED:
            of = rng.randrange(whole)
            query, text = rows.conversations[of]
            rows.conversations.append((query, degrade(rng, text)))
            rows.add(of, len(rows.conversations) - 1, self._drawn(sentences, rng, shortened=degrade is cut), WHOLE_WINS)
        for _ in range(DEGRADED):
            _, trait, sign = rng.choice(sentences)
            able = np.flatnonzero(sign * gaps[:, trait] >= SMALLEST)
            if not len(able):
                continue
            better, worse = pairs[rng.choice(able.tolist())]
            same = [index for index, (_, other, way) in enumerate(sentences) if (other, way) == (trait, sign)]
            query, text = rows.conversations[worse]
            rows.conversations.append((query, stuffed(rng, text, [sentences[rng.choice(same)].text], MOST_STUFFED)))
            rows.add(better, len(rows.conversations) - 1, np.array(same, dtype=np.int64), WHOLE_WINS)
            rows.add(worse, len(rows.conversations) - 1, self._drawn(sentences, rng), WHOLE_WINS)

    def _drawn(self, sentences: Sequence[Sentence], rng: random.Random, shortened: bool = False) -> NDArray[np.int64]:
        """Some sentences; none for short responses where one is compared that was ``shortened``."""
        short = {index for index, trait in enumerate(self._traits) if shortened and trait.name == "Length"}
        asked = [place for place, (_, trait, sign) in enumerate(sentences) if sign > 0 or trait not in short]
        return np.array([place for place in asked if rng.random() < DEGRADED_SHARE], dtype=np.int64)
