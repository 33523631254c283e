"""In: preferences, a direction and a kind of noise. Out: comparisons, and a count of every row made or left out.

Direction ``original`` conditions on the winner's criteria, ``reverse`` on the loser's, ``random`` on one of the two,
drawn per sample and epoch. The label is the side that was conditioned on. Which response stands first (order) is
decided where rows are encoded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import Literal

from crm.data.noise import CriteriaPool, add_noise
from crm.io.draws import generator
from crm.schema import GENERIC_CRITERION, Comparison, Preference, folded

Side = Literal["a", "b"]
DIRECTIONS = ("original", "reverse", "random", "both")
"""``both`` makes two comparisons of a preference, one a side; the others make one."""
TIES = ("drop", "soft")
CRITERIA_MODES = ("own", "none")
FIXED_SEED = 42
"""Of what is drawn once and is the same for every run on the same data, whatever its seed: noise of suites, direction
and order of validation."""


def make_comparison(
    preference: Preference,
    *,
    direction: str,
    noise: str,
    pool: CriteriaPool | None,
    seed: int,
    epoch: int,
    ties: str = "drop",
    criteria_mode: str = "own",
) -> Comparison | None:
    """One comparison, or ``None`` where the vote is a dropped tie or the chosen side has no criteria.

    ``direction`` and ``noise`` of the result, and its id, say what was really done, never ``random``. With
    ``ties="soft"`` a tie keeps the label ``tie`` under criteria of a drawn side. ``criteria_mode="none"`` shows
    `GENERIC_CRITERION` instead, without noise, on exactly the rows that ``own`` would give: a fair control. Rows of a
    source without any criteria get some to begin with from `with_generic_criterion`.
    """
    if criteria_mode not in CRITERIA_MODES:
        raise ValueError(f"criteria_mode: {criteria_mode!r} is not one of {', '.join(CRITERIA_MODES)}")
    side = choose_side(preference, direction, seed=seed, epoch=epoch, ties=ties)
    if side is None:
        return None
    criteria: tuple[str, ...]
    if criteria_mode == "none":
        criteria, applied = (GENERIC_CRITERION,), "none"
    elif noise == "none":
        criteria, applied = side_criteria(preference, side), "none"
    else:
        noised = add_noise(
            side_criteria(preference, side),
            kind=noise,
            pool=pool,
            loser_criteria=side_criteria(preference, other_side(side)),
            loser_topics=side_topics(preference, other_side(side)),
            seed=seed,
            epoch=epoch,
            sample_id=preference.id,
        )
        criteria, applied = noised.criteria, noised.applied
    winner = nominal_winner(preference, seed=seed, epoch=epoch, ties=ties)
    used = "original" if side == winner else "reverse"
    return Comparison(
        id=f"{preference.id}|{used}|{applied}",
        preference_id=preference.id,
        criteria=criteria,
        prompt=preference.prompt,
        response_a=preference.response_a,
        response_b=preference.response_b,
        label="tie" if preference.winner == "tie" else side,
        direction=used,
        noise=applied,
    )


def make_comparisons(
    preferences: Iterable[Preference],
    *,
    direction: str,
    noise: str,
    pool: CriteriaPool | None,
    seed: int,
    epoch: int,
    ties: str = "drop",
    criteria_mode: str = "own",
) -> tuple[list[Comparison], dict[str, int]]:
    """All comparisons in the order of ``preferences``, and how many rows went where.

    Counts: ``made``, ``ties_dropped``, ``without_criteria``, ``same_criteria`` (see `contradicts_itself`; these add up
    to the rows read), and of those made ``direction_<used>`` and ``noise_<applied>``. Direction ``both`` reads every
    preference twice, as ``original`` and then as ``reverse``: in a batch that holds the two, all that does not depend
    on the criteria cancels.
    """
    made: list[Comparison] = []
    counts: Counter[str] = Counter(made=0, ties_dropped=0, without_criteria=0)
    directions = ("original", "reverse") if direction == "both" else (direction,)
    for preference, single in product(preferences, directions):
        comparison = make_comparison(
            preference,
            direction=single,
            noise=noise,
            pool=pool,
            seed=seed,
            epoch=epoch,
            ties=ties,
            criteria_mode=criteria_mode,
        )
        if comparison is None:
            dropped_tie = preference.winner == "tie" and ties == "drop"
            why = "same_criteria" if contradicts_itself(preference) else "without_criteria"
            counts["ties_dropped" if dropped_tie else why] += 1
            continue
        made.append(comparison)
        counts.update(("made", f"direction_{comparison.direction}", f"noise_{comparison.noise}"))
    return made, dict(counts)


def with_generic_criterion(preferences: Iterable[Preference]) -> list[Preference]:
    """Rows without criteria as rows that can be compared: the winner's side (of a tie: both) has `GENERIC_CRITERION`.

    What most people find better is all that is said of the voter, so a row is a comparison in direction ``original``
    and in no other. Only for a source in which no row has criteria: in one that has some, a row without is left out.
    """
    generic = (GENERIC_CRITERION,)
    return [
        replace(row, criteria_a=() if row.winner == "b" else generic, criteria_b=() if row.winner == "a" else generic)
        for row in preferences
    ]


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
    if direction != "original" and contradicts_itself(preference):
        return winner if direction == "random" else None
    if direction == "random":
        return _drawn_side(preference, seed, epoch)
    side = winner if direction == "original" else other_side(winner)
    return side if side_criteria(preference, side) else None


def contradicts_itself(preference: Preference) -> bool:
    """Whether both sides of a decided vote have the same criteria: the reverse direction would say the contrary of the
    original of one and the same user, so it is not defined."""
    a, b = preference.criteria_a, preference.criteria_b
    return preference.winner != "tie" and 0 < len(a) == len(b) and set(map(folded, a)) == set(map(folded, b))


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
