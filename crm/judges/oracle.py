"""The judge that knows the simulation's truth. In: comparisons of simulated texts. Out: the true log-odds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from crm.judges.judge import Asked, Reading
from crm.schema import Comparison, Message
from crm.votes.simulation.taste import pole_of
from crm.votes.simulation.truth import levels_of
from crm.votes.simulation.votes import RATIONALITY


@dataclass(frozen=True)
class OracleJudge:
    """The upper bound in the simulation: votes are noisy, so that even the truth is not always right.

    It knows the simulation's wordings and texts only: under other criteria, or of other texts, it gives no verdict.
    """

    left_out, together = "unanswered", 1

    @property
    def digest(self) -> str:
        """Of the slope of the votes."""
        return f"oracle-{RATIONALITY}"

    def fits(self, asked: Asked) -> bool:
        """Always."""
        return True

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        """One portion with every comparison."""
        readings = []
        for row, order in comparisons:
            known = true_logit(row)
            logit, failure = (None, known) if isinstance(known, str) else (known, None)
            readings.append(Reading(row, order, logit, failure=failure))
        yield readings


def true_logit(row: Comparison) -> float | str:
    """The log-odds that a user with these criteria prefers response A, or a word for why they are not known."""
    poles = [pole_of(criterion) for criterion in row.criteria]
    first, second = (levels_of(_text(turns)) for turns in (row.response_a, row.response_b))
    if not poles or None in poles:
        return "unknown_criterion"
    if first is None or second is None:
        return "unknown_text"
    gaps = {axis: level - dict(second)[axis] for axis, level in first}
    # Noise can put two criteria of one axis side by side, so that tastes are summed one by one.
    return RATIONALITY * sum(pole[1] * gaps[pole[0]] for pole in poles if pole)


def _text(turns: Sequence[Message]) -> str:
    return "\n".join(turn.content for turn in turns)
