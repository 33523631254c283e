"""What a judge is: its readings of comparisons; and judges without a model: length, a coin, the truth."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from crm.data.simulation.arena import RATIONALITY
from crm.data.simulation.lexicon import levels_of, pole_of
from crm.io.draws import generator
from crm.io.words import count_words
from crm.model.encoding import Order
from crm.schema import Comparison, Message

Asked = tuple[Comparison, Order]
"""A comparison and which of its responses stands first."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One comparison in one order. ``preference_logit`` and the scores are about the record's responses A and B.

    A comparison without a usable verdict has no logit but a ``failure``, a short word for why. ``tokens`` counts the
    judge's own tokens before anything shared is saved.
    """

    comparison: Comparison
    order: Order
    preference_logit: float | None
    score_a: float | None = None
    score_b: float | None = None
    failure: str | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        assert (self.preference_logit is None) == (self.failure is not None), "a verdict or a failure, never both"


class Judge(Protocol):
    """``digest`` covers all that decides its readings: weights, template, precision, prompt, parameters.

    ``left_out`` is a word for why a comparison may have no reading at all (``too_long``, ``unanswered``): the next run
    asks for it again, while a failure is final. A judge with ``pointwise`` true scores each response by itself, and the
    difference of its scores is the logit.
    """

    left_out: str

    @property
    def digest(self) -> str: ...  # noqa: D102

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        """Readings in portions, in any order; ids of comparisons are unique."""
        ...


class TextJudge(ABC):
    """Scores each response by its text, so that both orders of a pair have the same scores."""

    left_out, pointwise = "unanswered", True

    @abstractmethod
    def score(self, criteria: Sequence[str], response: Sequence[Message]) -> float | str:
        """Of one response, in log-odds; or a word for why there is no number."""

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        """One portion with every comparison."""
        yield [self._reading(row, order) for row, order in comparisons]

    def _reading(self, row: Comparison, order: Order) -> Reading:
        a, b = (self.score(row.criteria, turns) for turns in (row.response_a, row.response_b))
        if isinstance(a, str) or isinstance(b, str):
            return Reading(row, order, None, failure=a if isinstance(a, str) else str(b))
        return Reading(row, order, a - b, a, b)


class LengthJudge(TextJudge):
    """The longer response wins: the logit is the logarithm of the ratio of words (each plus one)."""

    digest = "length-words-2"

    def score(self, criteria: Sequence[str], response: Sequence[Message]) -> float | str:
        """The logarithm of one more than the words."""
        return math.log(1 + words(response))


class OracleJudge(TextJudge):
    """The upper bound in the simulation, whose votes are noisy; other criteria and texts have no verdict."""

    digest = f"oracle-{RATIONALITY}"

    def score(self, criteria: Sequence[str], response: Sequence[Message]) -> float | str:
        """What a response is worth to a user with these criteria, in nats, or a word for why it is not known."""
        poles = [pole_of(criterion) for criterion in criteria]
        levels = levels_of("\n".join(turn.content for turn in response))
        if not poles or None in poles:
            return "unknown_criterion"
        if levels is None:
            return "unknown_text"
        known = dict(levels)
        # Noise can put two criteria of one axis side by side, so that tastes are summed one by one.
        return RATIONALITY * sum(pole[1] * known[pole[0]] for pole in poles if pole)


class CoinJudge:
    """A fair coin for each comparison, the same in both orders; it depends on ``seed`` and the id alone."""

    left_out = "unanswered"

    def __init__(self, seed: int) -> None:
        self.seed, self.digest = seed, f"coin-{seed}"

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        """A logit is 1 or -1."""
        flips = (generator(self.seed, 0, row.id, "coin").choice((1.0, -1.0)) for row, _ in comparisons)
        yield [Reading(row, order, logit) for (row, order), logit in zip(comparisons, flips, strict=True)]


def words(turns: Sequence[Message]) -> int:
    """Words of a response, as `count_words` counts them."""
    return sum(count_words(turn.content) for turn in turns)
