"""Votes of simulated users between two responses: a winner and criteria for both sides.

A user holds one to four signed axes; the utility of a response is the sum of sign times level. The user of each side
prefers that side, but for Bradley-Terry noise: now and then someone's vote contradicts their criteria.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crm.votes.simulation.responses import DETAIL
from crm.votes.simulation.taste import AXIS, draw_wording

TASTE_COUNTS = (1, 2, 3, 4)
TASTE_WEIGHTS = (0.5, 0.3, 0.15, 0.05)
"""How many tastes a user holds, and how often; single tastes lead, since leaderboards are asked for one criterion."""
RATIONALITY = 4.0
"""Bradley-Terry slope: a vote contradicts a utility difference d with probability 1 / (1 + exp(RATIONALITY |d|))."""
TIE_SHARE = 0.04
"""Share of records whose users are indifferent."""
TELLING_SHARE, FAVOURING_SHARE = 0.9, 0.95
"""Share of tastes drawn among the axes on which the two responses differ, and of those, share that favours the side."""
DETAIL_WEIGHT = 0.35
"""Weight of the detail axis against any other: responses differ on it so often that it would be half of all tastes."""
LOWER_CASE_SHARE = 0.25
"""Share of users who write their criteria without capital letters."""

Levels = Mapping[str, int]
Tastes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Vote:
    """Winner (``a``, ``b`` or ``tie``) and the tastes (axis -> sign) of the users who speak for each side."""

    winner: str
    tastes_a: dict[str, int]
    tastes_b: dict[str, int]


def utility(tastes: Tastes, levels: Levels) -> int:
    """Sum over the user's axes of sign times level."""
    return sum(sign * levels[axis] for axis, sign in tastes.items())


def _draw_tastes(rng: random.Random, gaps: Levels, wanted: int) -> dict[str, int] | None:
    """Tastes under which the utility difference A - B has the sign ``wanted`` (0: indifferent); None if unlucky.

    ``gaps`` maps every axis allowed to level in A minus level in B. Criteria are written for a side with both responses
    in view (arXiv 2508.09463), so most of them name something that tells the two apart, in that side's favour; the
    rest are about something else, or speak for the other side and are outweighed.
    """
    count = min(rng.choices(TASTE_COUNTS, TASTE_WEIGHTS)[0], len(gaps))
    differing = [axis for axis, gap in gaps.items() if gap]
    for _ in range(20):
        tastes: dict[str, int] = {}
        while len(tastes) < count:
            axis = _draw_axis(rng, differing if differing and rng.random() < TELLING_SHARE else list(gaps))
            favours = wanted if rng.random() < FAVOURING_SHARE else -wanted
            tastes.setdefault(axis, _sign(gaps[axis] * favours) or rng.choice((-1, 1)))
        difference = sum(sign * gaps[axis] for axis, sign in tastes.items())
        if _sign(difference) == wanted:
            return tastes
    return None


def _draw_axis(rng: random.Random, axes: Sequence[str]) -> str:
    return rng.choices(axes, [DETAIL_WEIGHT if axis == DETAIL else 1.0 for axis in axes])[0]


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _contradicts(rng: random.Random, tastes: Tastes, gaps: Levels) -> bool:
    difference = abs(sum(sign * gaps[axis] for axis, sign in tastes.items()))
    return rng.random() < 1.0 / (1.0 + math.exp(RATIONALITY * difference))


def cast(rng: random.Random, levels_a: Levels, levels_b: Levels, axes: Sequence[str]) -> Vote | None:
    """One vote between two responses by users whose tastes lie on ``axes``; None when the responses give no ground.

    The winner is drawn first, then a user for each side, so nothing but the criteria tells who won. A user whose noisy
    vote contradicts their tastes is on the wrong side: their criteria prefer the other response.
    """
    gaps = {axis: levels_a[axis] - levels_b[axis] for axis in axes}
    winner = "tie" if rng.random() < TIE_SHARE else rng.choice("ab")
    sides = []
    for side in (1, -1):
        tastes = _draw_tastes(rng, gaps, 0 if winner == "tie" else side)
        if tastes is None:
            return None
        if winner != "tie" and _contradicts(rng, tastes, gaps):
            tastes = {axis: -sign for axis, sign in tastes.items()}
        sides.append(tastes)
    return Vote(winner, *sides)


def put_into_words(rng: random.Random, tastes: Tastes, kind: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Criteria of a user and, in parallel, their broad topics; ``kind`` of wordings as in `taste.WORDINGS`."""
    criteria = [draw_wording(rng, axis, sign, kind) for axis, sign in tastes.items()]
    if rng.random() < LOWER_CASE_SHARE:
        criteria = [wording.lower() for wording in criteria]
    return tuple(criteria), tuple(AXIS[axis].topic for axis in tastes)
