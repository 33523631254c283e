"""Control judges: a preference for length, and a coin."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from crm.io.draws import generator
from crm.io.words import count_words
from crm.judges.judge import Asked, Reading
from crm.schema import Message


@dataclass(frozen=True)
class LengthJudge:
    """The longer response wins: the logit is the logarithm of the ratio of words (each plus one)."""

    left_out, together, pointwise, digest = "unanswered", 1, True, "length-words-2"

    def fits(self, asked: Asked) -> bool:
        """Always."""
        return True

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        """One portion with every comparison; a score is the logarithm of one more than the words."""
        readings = []
        for row, order in comparisons:
            a, b = (math.log(1 + words(turns)) for turns in (row.response_a, row.response_b))
            readings.append(Reading(row, order, a - b, a, b))
        yield readings


@dataclass(frozen=True)
class CoinJudge:
    """A fair coin for each comparison, the same in both orders; it depends on ``seed`` and the id alone."""

    seed: int
    left_out, together = "unanswered", 1

    @property
    def digest(self) -> str:
        """Of the seed."""
        return f"coin-{self.seed}"

    def fits(self, asked: Asked) -> bool:
        """Always."""
        return True

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        """One portion with every comparison; a logit is 1 or -1."""
        yield [
            Reading(row, order, generator(self.seed, 0, row.id, "coin").choice((1.0, -1.0)))
            for row, order in comparisons
        ]


def words(turns: Sequence[Message]) -> int:
    """Words of a response, as `count_words` counts them."""
    return sum(count_words(turn.content) for turn in turns)
