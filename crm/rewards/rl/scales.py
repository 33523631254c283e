"""Scores of several users in one unit. In: a user's criteria and scores. Out: standard deviations above their mean.

Within a group of responses to one prompt nothing changes: GRPO subtracts the group's mean anyway, and divides by its
spread unless told otherwise. Where it is not divided (RLOO, ``scale_rewards="none"`` or ``"batch"``), or where several
rewards are added, criteria with widely spread scores would count for more than others: here each has spread 1.

Mean and spread are those of the first `SETTLED` scores under the criteria, and stay as they are from then on: the
reward of a text no longer changes while the policy does, and a reward of 2 means two standard deviations above what
the policy wrote at first. A run that is resumed takes them anew. So does each process of a distributed run: there, keep
the group of a prompt in one process (a batch that is a multiple of ``num_generations``), or do not standardize.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, pstdev

SETTLED = 64
"""Scores from which mean and spread of a user's criteria are taken."""
NARROW = 1e-6
"""Nats: a spread below this is rounding, and scores are only centred."""


class Scales:
    """Mean and spread of the scores under each criteria, in nats."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, ...], list[float]] = {}

    def add(self, criteria: tuple[str, ...], scores: Sequence[float | None]) -> None:
        """Take scores (nats) into account while the criteria have fewer than `SETTLED`; None counts for nothing."""
        first = self._first.setdefault(criteria, [])
        first += [score for score in scores if score is not None][: SETTLED - len(first)]

    def standardized(self, criteria: tuple[str, ...], scores: Sequence[float | None]) -> list[float | None]:
        """Scores (nats) in standard deviations; None stays None."""
        if not (first := self._first.get(criteria)):
            return list(scores)
        mean, spread = fmean(first), pstdev(first)
        unit = spread if spread > NARROW else 1.0
        return [None if score is None else (score - mean) / unit for score in scores]
