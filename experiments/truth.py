"""Rankings of the simulated bank by what its responses were written to be."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from crm.data.simulation.lexicon import AUTHORS, AXES, BASELINE, WORDINGS, pole_of, wordings
from crm.leaderboard.bank.opening import SimulatedBank


def nearest_wording(text: str) -> str:
    """The wording of the simulation that is spelled most alike."""
    known = [each for axis in AXES for sign in (1, -1) for kind in WORDINGS for each in wordings(axis.name, sign, kind)]
    return difflib.get_close_matches(text, known, n=1, cutoff=0.0)[0]


def true_win_rates(simulated: SimulatedBank, criteria: Sequence[str]) -> dict[str, float]:
    """Win rate in [0, 1] of every author but the baseline under the criteria: mean over queries, ties one half.

    Criteria must be wordings of the simulation (`pole_of`); else ``ValueError`` with the nearest known wording.
    """
    tastes = []
    for text in criteria:
        if (pole := pole_of(text)) is None:
            raise ValueError(f"criteria: {text!r} has no known truth; the nearest wording is {nearest_wording(text)!r}")
        tastes.append(pole)

    def points(author: str, query_id: str) -> float:
        ours, theirs = simulated.levels[author][query_id], simulated.levels[BASELINE][query_id]
        gap = sum(sign * (ours[axis] - theirs[axis]) for axis, sign in tastes)
        return 0.5 if gap == 0 else float(gap > 0)

    return {
        author: sum(points(author, query.id) for query in simulated.bank.queries) / len(simulated.bank.queries)
        for author in AUTHORS
        if author != BASELINE
    }
