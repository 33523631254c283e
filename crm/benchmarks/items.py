"""What a benchmark asks, and what a judge answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crm.rewards.scoring import Group, Turns
from crm.schema import prompt_key

Scores = Sequence[Sequence[float | None]]
"""Of each item, a score for each of its responses; None where it could not be read."""


@dataclass(frozen=True)
class Item:
    """Responses to one prompt, of which those at the places ``right`` are correct.

    ``category`` goes from the widest to the narrowest: a mean is taken level by level. ``values`` grade every response
    where a benchmark does. Items of one ``user`` are fitted on those whose
    ``split`` is not ``test``, and asked on the others.
    """

    id: str
    prompt: Turns
    responses: tuple[Turns, ...]
    right: tuple[int, ...] = (0,)
    criteria: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    values: tuple[float, ...] = ()
    user: str = ""
    split: str = ""

    @property
    def cluster(self) -> str:
        """What is resampled together: a user, or else the prompt's key."""
        return self.user or prompt_key(self.prompt)

    def group(self) -> Group:
        """What a judge reads."""
        return Group(self.criteria, self.prompt, self.responses)


@dataclass(frozen=True)
class Point:
    """One number in [0, 1] of one item, that a metric is a mean of."""

    metric: str
    item: str
    cluster: str
    value: float
    category: tuple[str, ...] = ()
