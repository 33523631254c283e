"""Score the simulated bank by the simulation's own truth, as `crm.judges.oracle` does, for everybody at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from crm.leaderboard.bank.bank import Bank
from crm.leaderboard.outcomes import BankNumbers, Outcomes
from crm.schema import short
from crm.votes.simulation.taste import HELD_OUT_AXES, TRAIN_AXES, nearest_wording, pole_of
from crm.votes.simulation.truth import levels_of
from crm.votes.simulation.votes import RATIONALITY

if TYPE_CHECKING:
    from crm.leaderboard.index import Scores
    from crm.model.late_reading import Conversation

AXES = (*TRAIN_AXES, *HELD_OUT_AXES)
UNKNOWN = np.full(len(AXES), np.nan, dtype=np.float32)


class OracleScorer:
    """The true utility of every response, in nats, under the wordings of the simulation.

    Tastes of the simulation come in pairs of opposites, so that over all of them every model wins half: there is no
    ranking without criteria. Raises ``ValueError`` for a bank with texts that the simulation did not write.
    """

    example = "Prefers concise answers"

    def __init__(self, bank: Bank) -> None:
        self.bank, self._numbers = bank, BankNumbers(bank)
        texts = [[bank.responses[author][query.id] for author in bank.authors] for query in bank.queries]
        self._levels = np.array([[_levels(text) for text in row] for row in texts])
        if np.isnan(self._levels).any():
            raise ValueError(
                f"judge=oracle: bank {bank.name!r} has responses that the simulation did not write; use "
                "bank=simulated, or give a late head with checkpoint=<run>/model"
            )

    def prepare(self, criteria: Sequence[str]) -> None:
        """There is nothing to prepare."""

    def scores(self, criteria: Sequence[str]) -> Scores:
        """(N, Q, M) float32, each criterion alone; NaN for one that is not understood."""
        tastes = np.stack([_taste(line) for line in criteria])
        return np.ascontiguousarray(np.moveaxis(self._levels @ tastes.T, -1, 0))

    def outcomes(self, criteria: Sequence[str], weights: Sequence[float], part: Bank) -> Outcomes:
        """Of ``part`` under the weighted sum of what is understood; unread throughout where nothing is."""
        return self._numbers.outcomes(self._levels @ _sum(criteria, weights), part)

    def of_texts(self, criteria: Sequence[str], weights: Sequence[float], texts: Sequence[Conversation]) -> list[float]:
        """A score for each of ``texts``; NaN for what the simulation did not write."""
        levels = np.stack([_levels("\n".join(turn.content for turn in response)) for _, response in texts])
        found: list[float] = (levels @ _sum(criteria, weights)).tolist()
        return found

    def not_understood(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Lines that are no wording of the simulation, with or without a leading "Prefers"."""
        return tuple(line for line in lines if np.isnan(_taste(line)).any())

    def advice(self, lines: Sequence[str]) -> str:
        """A sentence to try: the known one that is most like the first of ``lines``."""
        if not lines:
            return f"Add something that you like, such as “{self.example}”: over all tastes, no model is ahead."
        near = nearest_wording(lines[0])
        return f"{short(lines[0])} is not understood: this judge knows the simulation's sentences only. Try “{near}”."


def _levels(text: str) -> Scores:
    """(D,) levels of a response, from -1 to 1; NaN for a text that the simulation did not write."""
    levels = levels_of(text)
    return UNKNOWN if levels is None else np.array([dict(levels)[axis] for axis in AXES], dtype=np.float32)


def _taste(line: str) -> Scores:
    """(D,) nats for each level; NaN for a line that is not understood."""
    pole = pole_of(line) or pole_of(f"Prefers {line}")
    if pole is None:
        return UNKNOWN
    return np.array([RATIONALITY * pole[1] * (axis == pole[0]) for axis in AXES], dtype=np.float32)


def _sum(criteria: Sequence[str], weights: Sequence[float]) -> Scores:
    """(D,) of all that is understood; NaN where nothing is."""
    tastes = [weight * _taste(line) for line, weight in zip(criteria, weights, strict=True)]
    known = [taste for taste in tastes if not np.isnan(taste).any()]
    return np.sum(known, axis=0, dtype=np.float32) if known else UNKNOWN
