"""Many comparisons of few texts, as numbers. In: nothing. Out: `ComparisonTable`, the comparisons of one step.

Where a source makes its preferences, a few responses and a few hundred sentences give tens of thousands of comparisons:
one record each would take longer than learning from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from crm.schema import Message

Conversation = tuple[tuple[Message, ...], tuple[Message, ...]]
"""A prompt and a response to it."""


@dataclass(frozen=True)
class ComparisonTable:
    """B comparisons of U conversations, each by one of V criteria, or by a wish that nobody has put into words."""

    conversations: Sequence[Conversation]
    criteria: Sequence[str]
    shown: NDArray[np.int64]
    """(B, 2) in [0, U): the response shown first and the one shown second"""
    asked: NDArray[np.int64]
    """(B,) in [0, V); where there are no criteria in [0, W), one of `TableSource.wishes`"""
    target: NDArray[np.float32]
    """(B,) in [0, 1]: probability that the response shown first is preferred"""


class TableSource(Protocol):
    """What makes tables to train on, as many as are asked for."""

    wishes: int
    """Distinct wishes that all comparisons are about."""

    def __call__(self, number: int, *, in_words: bool) -> ComparisonTable:
        """The table of that number, 0 or more: always the same, and another one for each number."""
        ...
