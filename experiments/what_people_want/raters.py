"""Agreement of three people on the same pairs: a ceiling for any judge."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Agreement:
    """Shares in [0, 1]. ``pairwise``: two raters of a pair give the same vote.

    ``one_against_two``: a rater gives the vote of the other two, where these agree: the ceiling for a judge that is
    measured against the agreed vote of two. ``majority``: a rater gives the vote of the majority that their own vote is
    part of; it flatters, and is what accuracy against a majority of three compares with.
    """

    pairs: int
    pairwise: float
    one_against_two: float
    majority: float


def agreement_of_three(*, unanimous: int, three_way: int, pairs: int) -> Agreement:
    """Agreement of three raters from how many pairs all agree on, and on how many all differ; on the rest two agree.

    Raises ``ValueError`` where these cannot be, or where nobody agrees on anything.
    """
    two = pairs - unanimous - three_way
    if min(unanimous, three_way, two) < 0 or unanimous + two == 0:
        raise ValueError(f"pairs: {pairs} with {unanimous} unanimous and {three_way} three-way cannot be counted")
    return Agreement(
        pairs=pairs,
        pairwise=(3 * unanimous + two) / (3 * pairs),
        one_against_two=3 * unanimous / (3 * unanimous + two),
        majority=(3 * unanimous + 2 * two) / (3 * (unanimous + two)),
    )
