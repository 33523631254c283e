"""What a judge is. In: comparisons, each in one order. Out: readings, the log-odds that response A is preferred.

Whatever answers so is a judge: a customizable reward model, a reward model of a hub, a language model behind an
endpoint, a coin. Evaluation and leaderboard know nothing else of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from crm.model.encoding import Order
from crm.schema import Comparison

Asked = tuple[Comparison, Order]
"""A comparison and which of its responses stands first."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One comparison in one order. ``preference_logit`` and the scores are about the record's responses A and B.

    A judge that read the comparison and gave no usable verdict has no logit but a ``failure``, a short word for why.
    ``tokens`` is what reading it took, in the judge's own tokens and before anything shared is saved; ``None`` where
    nothing is read as tokens.
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
    """``digest`` stands for all that decides its readings: weights, template, precision, prompt, parameters.

    ``left_out`` is a word for why a comparison may have no reading at all (``too_long``, ``unanswered``): such ones are
    counted and asked for again by the next run, while a reading that failed is an outcome and stays. ``together`` is
    how many comparisons, in the order given, are computed in one go, so that the last bits of their logits depend on
    each other; 1 where each stands for itself.

    A judge may say that it is ``pointwise``: that the scores of its readings are each of one response alone, and their
    difference is the logit. One that does not say so only compares.
    """

    left_out: str

    @property
    def together(self) -> int:
        """1 or more."""
        ...

    @property
    def digest(self) -> str:
        """Hex digits or words, without line breaks."""
        ...

    def fits(self, asked: Asked) -> bool:
        """Whether it can be read at all; what is too long cannot."""
        ...

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        """Readings in portions, in any order; ids of comparisons are unique."""
        ...
