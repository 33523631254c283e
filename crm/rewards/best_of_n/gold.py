"""What the picks are measured by. In: candidates. Out: a number for each response, higher is better; NaN: not known.

Gold is kept apart from the reward that picks: the truth of the simulation, a trait that is counted in the text, another
judge, or a column of the file.
"""

from __future__ import annotations

from collections.abc import Sequence

from crm.criteria.counting import TRAITS, Trait
from crm.criteria.trait_wordings import wording
from crm.rewards.best_of_n.candidates import Candidates, table
from crm.rewards.best_of_n.estimator import Floats
from crm.rewards.best_of_n.selection import ROUND_ROBIN
from crm.rewards.scoring import Group, Rewards
from crm.votes.simulation.taste import pole_of, wordings


def by_trait(candidates: Sequence[Candidates], trait: Trait, sign: int) -> Floats:
    """(Q, n) thresholds of the trait (what is clearly more of it), counted for ``sign`` 1 and against for -1."""
    rows = [[sign * trait.measure(text) / trait.threshold for text in own.responses] for own in candidates]
    return table(rows, width(candidates))


def by_judge(rewards: Rewards, candidates: Sequence[Candidates]) -> Floats:
    """(Q, n) rewards under the criteria of each query.

    A judge that only compares gives the mean log-odds against the others; of more than `ROUND_ROBIN` candidates
    the log-odds against the first of them.
    """
    groups = [own.group(own.criteria) for own in candidates]
    if not rewards.pointwise:
        groups = [_anchored(group) for group in groups]
    return table(rewards.of_groups(groups), width(candidates))


def of_column(candidates: Sequence[Candidates]) -> Floats:
    """(Q, n) what the file says."""
    return table([own.gold or [None] * len(own.responses) for own in candidates], width(candidates))


def width(candidates: Sequence[Candidates]) -> int:
    """n, the most responses of a query."""
    return max(len(own.responses) for own in candidates)


def trait_named(name: str) -> Trait:
    """The countable trait of that name. Raises ``KeyError`` for another."""
    return {trait.name: trait for trait in TRAITS}[name]


def wish_for(trait: str, sign: int) -> str:
    """A sentence of a user who wants more (1) or less (-1) of a trait; no model of this project was trained on it."""
    return wording(trait, sign).unseen[0]


def opposite_of(criteria: Sequence[str]) -> tuple[str, ...]:
    """What somebody cares about who wants the contrary, in wordings of the simulation; () where one is not its own.

    A wording that no model was trained on has such a one as its opposite.
    """
    found = []
    for text in criteria:
        pole = pole_of(text)
        if pole is None:
            return ()
        axis, sign = pole
        unseen = text.casefold() in {said.casefold() for said in wordings(axis, sign, "held_out")}
        found.append(wordings(axis, -sign, "held_out" if unseen else "train")[0])
    return tuple(found)


def _anchored(group: Group) -> Group:
    many = len(group.responses) > ROUND_ROBIN
    return Group(group.criteria, group.prompt, group.responses, group.responses[0]) if many else group
