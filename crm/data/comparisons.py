"""In: preferences, a direction and a kind of noise. Out: comparisons, and a count of every row made or left out.

The label is the side that was conditioned on. Which response stands first (order) is decided where rows are encoded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import product

from crm.data.direction import choose_side, nominal_winner, other_side, side_criteria, side_topics
from crm.data.noise import CriteriaPool, Noised, add_noise
from crm.schema import Comparison, Preference

GENERIC_CRITERION = "Prefers the response that most people would find better."
"""What a judge is told about a user of whom nothing is known: the control that cannot see criteria."""

CRITERIA_MODES = ("own", "none")


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
    `GENERIC_CRITERION` instead, without noise, on exactly the rows that ``own`` would give: a fair control.
    """
    if criteria_mode not in CRITERIA_MODES:
        raise ValueError(f"criteria_mode: {criteria_mode!r} is not one of {', '.join(CRITERIA_MODES)}")
    side = choose_side(preference, direction, seed=seed, epoch=epoch, ties=ties)
    if side is None:
        return None
    if criteria_mode == "none":
        noised = Noised((GENERIC_CRITERION,), "none")
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
    winner = nominal_winner(preference, seed=seed, epoch=epoch, ties=ties)
    used = "original" if side == winner else "reverse"
    return Comparison(
        id=f"{preference.id}|{used}|{noised.applied}",
        preference_id=preference.id,
        criteria=noised.criteria,
        prompt=preference.prompt,
        response_a=preference.response_a,
        response_b=preference.response_b,
        label="tie" if preference.winner == "tie" else side,
        direction=used,
        noise=noised.applied,
    )


def with_generic_criterion(preference: Preference) -> Preference:
    """A vote of a user of whom nothing is known: `GENERIC_CRITERION` speaks for the winner, nothing for the loser."""
    return replace(
        preference,
        criteria_a=(GENERIC_CRITERION,) if preference.winner == "a" else (),
        criteria_b=(GENERIC_CRITERION,) if preference.winner == "b" else (),
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

    Counts: ``made``, ``ties_dropped``, ``without_criteria`` (these three add up to the rows read), and of those made
    ``direction_<used>`` and ``noise_<applied>``. Direction ``both`` reads every preference twice, as ``original`` and
    then as ``reverse``: in a batch that holds the two, all that does not depend on the criteria cancels.
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
            counts["ties_dropped" if dropped_tie else "without_criteria"] += 1
            continue
        made.append(comparison)
        counts.update(("made", f"direction_{comparison.direction}", f"noise_{comparison.noise}"))
    return made, dict(counts)
