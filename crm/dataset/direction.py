"""In: a preference and a direction. Out: the side whose criteria a judge is shown, which is also the label.

``original`` conditions on the winner's criteria, ``reverse`` on the loser's, ``random`` on one of the two, drawn per
sample and epoch. Which response stands first is the *order*, and is not decided here.
"""

from __future__ import annotations

from typing import Literal

from crm.io.draws import generator
from crm.schema import Preference

Side = Literal["a", "b"]

DIRECTIONS = ("original", "reverse", "random", "both")
"""``both`` makes two comparisons of a preference, one a side (see `crm.dataset.comparisons`); the others make one."""
TIES = ("drop", "soft")


def choose_side(preference: Preference, direction: str, *, seed: int, epoch: int, ties: str = "drop") -> Side | None:
    """The side to condition on, or ``None`` where the vote is a dropped tie or that side has no criteria.

    ``random`` falls back to the side that has criteria; ``original`` and ``reverse`` do not, because that would
    change the direction that was asked for. With ``ties="soft"`` a tie takes part: see `nominal_winner`.
    Raises ``ValueError`` for an unknown direction or policy.
    """
    _check("direction", direction, DIRECTIONS[:3])
    _check("ties", ties, TIES)
    winner = nominal_winner(preference, seed=seed, epoch=epoch, ties=ties)
    if winner is None:
        return None
    if direction == "random":
        return _drawn_side(preference, seed, epoch)
    side = winner if direction == "original" else other_side(winner)
    return side if side_criteria(preference, side) else None


def nominal_winner(preference: Preference, *, seed: int, epoch: int, ties: str = "drop") -> Side | None:
    """The winner; for a tie ``None`` (``drop``) or a side drawn per sample and epoch (``soft``).

    The drawn side stands in for the winner, so ``original`` and ``reverse`` still show opposite sides of a tie.
    """
    if preference.winner == "a":
        return "a"
    if preference.winner == "b":
        return "b"
    if ties == "drop":
        return None
    return "a" if generator(seed, epoch, preference.id, "tie").random() < 0.5 else "b"


def side_criteria(preference: Preference, side: Side) -> tuple[str, ...]:
    """The criteria that speak for one side, possibly none."""
    return preference.criteria_a if side == "a" else preference.criteria_b


def side_topics(preference: Preference, side: Side) -> tuple[str, ...]:
    """The broad topics of one side's criteria, possibly none."""
    return preference.criteria_topics_a if side == "a" else preference.criteria_topics_b


def other_side(side: Side) -> Side:
    """The side that ``side`` is not."""
    return "b" if side == "a" else "a"


def _drawn_side(preference: Preference, seed: int, epoch: int) -> Side | None:
    # The draw is over sides, not over winner and loser: half of the draws reverse the vote either way.
    side: Side = "a" if generator(seed, epoch, preference.id, "direction").random() < 0.5 else "b"
    if side_criteria(preference, side):
        return side
    return other_side(side) if side_criteria(preference, other_side(side)) else None


def _check(field: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{field}: {value!r} is not one of {', '.join(allowed)}")
