"""One simulated person's picks, and how right the ranking is after each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from crm.picking.criteria import Contrasts, joined
from crm.picking.session import Pick, Session
from crm.report.statistics import Floats, rank_correlation
from experiments.picking.people import Kind, Person, person
from experiments.picking.world import POOL, World

EARLY, FIRST = 8, 3
"""After so many picks, is what the person cares about most among the first so many criteria?"""


@dataclass(frozen=True)
class Condition:
    """How people are asked: pairs chosen or at random, with reasons offered, after typing so many criteria.

    ``votes`` ranks by the person's own votes alone (Bradley-Terry) and knows of no criteria.
    """

    adaptive: bool = True
    reasons: bool = True
    typed: int = 0
    kind: Kind = "fits"
    votes: bool = False


@dataclass(frozen=True)
class Course:
    """``taus`` and ``settled`` (N + 1,): tau with the true ranking, and expected tau, after 0 to N picks."""

    taus: Floats
    settled: Floats
    found_early: bool
    agreed: int
    asked: int


def course(world: World, condition: Condition, seed: int, picks: int) -> Course:
    """The person with this seed, through ``picks`` picks; nobody stops before."""
    somebody = person(seed, world.levels, POOL, condition.kind)
    rng = np.random.default_rng([seed, 2])
    contrasts, axes, typed = known_before(world, somebody, condition.typed)
    flags = tuple(place < typed for place in range(len(axes)))
    session = Session(contrasts, world.baseline, flags, (), seed, condition.adaptive, condition.reasons)
    truth = somebody.true_rates(world.baseline)
    taus, settled, found = [], [], False
    for number in range(picks + 1):
        rates = own_votes(session.picks, len(truth)) if condition.votes else session.ranking.mean
        taus.append(tau(rates, truth))
        settled.append(session.settled)
        if number == EARLY:
            most = int(np.argmax(np.abs(somebody.weights)))
            largest = np.argsort(-np.abs(session.posterior.mean), kind="stable")[:FIRST]
            found = most in [axes[place] for place in largest]
        if number < picks:
            pair = session.next_pair()
            pick = somebody.pick(pair, session.reasons(pair), axes, rng, tells_why=condition.reasons)
            session = replace(session, picks=(*session.picks, pick))
    return Course(np.array(taus), np.array(settled), found, *session.agreement())


def known_before(world: World, somebody: Person, count: int) -> tuple[Contrasts, list[int], int]:
    """All criteria, what the person typed first; the axis of each; and how many were typed, ``count`` at most.

    Somebody types what they care about most, and may care about less than ``count`` axes.
    """
    cared = np.flatnonzero(somebody.weights[:POOL])
    most = cared[np.argsort(-np.abs(somebody.weights[cared]), kind="stable")][:count].tolist()
    if not most:
        return world.pool, list(range(POOL)), 0
    sides = [world.typed[0 if somebody.weights[axis] > 0 else 1] for axis in most]
    values = np.stack([side.values[..., axis] for side, axis in zip(sides, most, strict=True)], axis=2)
    units = np.array([side.units[axis] for side, axis in zip(sides, most, strict=True)])
    contrasts, pooled = joined(Contrasts(values, units), world.pool)
    return contrasts, [*most, *pooled.tolist()], len(most)


def own_votes(picks: Sequence[Pick], models: int) -> Floats:
    """(M,) strengths by Bradley-Terry, shrunk a little towards each other; "same" is half a win of both."""
    points = {"left": 1.0, "same": 0.5, "right": 0.0}
    left, right = (np.array([getattr(pick.pair, side) for pick in picks], dtype=int) for side in ("left", "right"))
    won = np.array([points[pick.choice] for pick in picks])

    def loss(strength: Floats) -> float:
        chance = expit(strength[left] - strength[right])
        return float(0.05 * strength @ strength - (won * np.log(chance) + (1 - won) * np.log1p(-chance)).sum())

    return np.asarray(minimize(loss, np.zeros(models), method="L-BFGS-B").x) if len(picks) else np.zeros(models)


def tau(one: Floats, other: Floats) -> float:
    """Kendall's tau-b; 0 where a ranking has no order."""
    found = rank_correlation(one, other)
    return 0.0 if np.isnan(found) else found


def stays(taus: Floats, level: float) -> float:
    """Picks after which tau is never below ``level`` again; infinite where it is at the end."""
    below = np.flatnonzero(taus < level)
    if not len(below):
        return 0.0
    return float(below[-1] + 1) if below[-1] + 1 < len(taus) else float("inf")
