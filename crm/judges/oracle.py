"""The judge that knows the simulation's truth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from crm.data.simulation.arena import RATIONALITY
from crm.data.simulation.lexicon import pole_of
from crm.data.simulation.responses import levels_of
from crm.judges.judge import Asked, Reading
from crm.schema import Message


@dataclass(frozen=True)
class OracleJudge:
    """The upper bound in the simulation, whose votes are noisy; other criteria and texts have no verdict."""

    left_out, together, pointwise, digest = "unanswered", 1, True, f"oracle-{RATIONALITY}"

    def fits(self, asked: Asked) -> bool:
        """Always."""
        return True

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        """One portion with every comparison; a score is the utility of a response in nats."""
        readings = []
        for row, order in comparisons:
            first, second = (true_utility(row.criteria, turns) for turns in (row.response_a, row.response_b))
            if isinstance(first, str) or isinstance(second, str):
                unknown = first if isinstance(first, str) else second
                readings.append(Reading(row, order, None, failure=str(unknown)))
            else:
                readings.append(Reading(row, order, first - second, first, second))
        yield readings


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
