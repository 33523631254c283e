"""Control judges: a preference for length, a coin, and the truth of the simulation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from crm.data.simulation.arena import RATIONALITY
from crm.data.simulation.lexicon import levels_of, pole_of
from crm.io.draws import generator
from crm.io.words import count_words
from crm.judges.judge import Asked, Reading
from crm.model.encoding import Order
from crm.schema import Comparison, Message


class _Control:
    """Reads every comparison by itself."""

    left_out, together = "unanswered", 1

    def fits(self, asked: Asked) -> bool:
        """Always."""
        return True

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        """One portion with every comparison."""
        yield [self.reading(row, order) for row, order in comparisons]

    def reading(self, row: Comparison, order: Order) -> Reading:
        """Of one comparison."""
        raise NotImplementedError


@dataclass(frozen=True)
class LengthJudge(_Control):
    """The longer response wins: the logit is the logarithm of the ratio of words (each plus one)."""

    pointwise, digest = True, "length-words-2"

    def reading(self, row: Comparison, order: Order) -> Reading:
        """A score is the logarithm of one more than the words."""
        a, b = (math.log(1 + words(turns)) for turns in (row.response_a, row.response_b))
        return Reading(row, order, a - b, a, b)


@dataclass(frozen=True)
class CoinJudge(_Control):
    """A fair coin for each comparison, the same in both orders; it depends on ``seed`` and the id alone."""

    seed: int

    @property
    def digest(self) -> str:
        """Of the seed."""
        return f"coin-{self.seed}"

    def reading(self, row: Comparison, order: Order) -> Reading:
        """A logit is 1 or -1."""
        return Reading(row, order, generator(self.seed, 0, row.id, "coin").choice((1.0, -1.0)))


def words(turns: Sequence[Message]) -> int:
    """Words of a response, as `count_words` counts them."""
    return sum(count_words(turn.content) for turn in turns)


@dataclass(frozen=True)
class OracleJudge(_Control):
    """The upper bound in the simulation, whose votes are noisy; other criteria and texts have no verdict."""

    pointwise, digest = True, f"oracle-{RATIONALITY}"

    def reading(self, row: Comparison, order: Order) -> Reading:
        """A score is the utility of a response in nats."""
        a, b = (true_utility(row.criteria, turns) for turns in (row.response_a, row.response_b))
        if isinstance(a, str) or isinstance(b, str):
            return Reading(row, order, None, failure=a if isinstance(a, str) else str(b))
        return Reading(row, order, a - b, a, b)


def true_utility(criteria: Sequence[str], response: Sequence[Message]) -> float | str:
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
