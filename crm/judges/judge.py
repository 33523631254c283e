"""The protocol of judges: comparisons in, the log-odds that response A is preferred out."""

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
    asks for it again, while a failure is final. ``together`` (1 or more) is how many comparisons, in the order given,
    are computed in one go, so that the last bits of their logits depend on each other. A judge with ``pointwise`` true
    scores each response by itself, and the difference of its scores is the logit.
    """

    left_out: str

    # fmt: off
    @property
    def together(self) -> int: ...  # noqa: D102
    @property
    def digest(self) -> str: ...  # noqa: D102
    # fmt: on

    def fits(self, asked: Asked) -> bool:
        """Whether it can be read at all; what is too long cannot."""
        ...

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        """Readings in portions, in any order; ids of comparisons are unique."""
        ...
