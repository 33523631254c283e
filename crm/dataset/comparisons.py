"""In: preferences, a direction and a kind of noise. Out: comparisons, and a count of every row made or left out.

The label is the side that was conditioned on. Which response stands first (order) is decided where rows are encoded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import product

from crm.dataset.direction import choose_side, nominal_winner, other_side, side_criteria, side_topics
from crm.dataset.noise import CriteriaPool, Noised, add_noise
from crm.schema import GENERIC_CRITERION, Comparison, Preference

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
