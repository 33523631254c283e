"""Who chooses from what: candidates and gold of each user.

A criterion is one side of an axis that judges train on, in words that training never had, and gold is the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from crm.data.simulation.lexicon import AUTHORS, TOPIC, TRAIN_AXES, queries, wordings, write
from crm.io.draws import generator, turn
from crm.judges.judge import OracleJudge
from crm.report.statistics import Floats
from crm.rewards.best_of_n import Candidates, table
from crm.rewards.scoring import Rewards


@dataclass(frozen=True)
class Users:
    """Everybody with one criterion, a query each; ``gold`` (Q, n); ``opposite`` is the contrary criterion."""

    name: str
    candidates: list[Candidates]
    opposite: str
    gold: Floats


def simulated(*, seed: int, count: int, n: int) -> list[Candidates]:
    """``n`` responses of the simulation's authors to each of ``count`` queries without votes."""
    streams = [queries(topic, "bank") for topic in TOPIC]
    most = len(streams) * min(map(len, streams))
    if count > most:
        raise ValueError(f"--queries={count}: expected at most {most}, those that the simulation sets aside")
    found = []
    for place in range(count):
        query = streams[place % len(streams)][place // len(streams)]
        random = generator(seed, 0, query.text, "candidates")
        texts = [write(random.getrandbits(48), random.choice(AUTHORS), query).text for _ in range(n)]
        found.append(Candidates(turn("user", query.text), tuple(texts)))
    return found


def truth_of(candidates: Sequence[Candidates]) -> Floats:
    """(Q, n) nats of the true user, under the criteria of each query."""
    return table(Rewards(OracleJudge()).of_groups([own.group(own.criteria) for own in candidates]))


def of_arena(*, seed: int, queries: int, n: int) -> list[Users]:
    """26 criteria about the same responses; the two of an axis are neighbours."""
    pool = simulated(seed=seed, count=queries, n=n)
    found = []
    for axis in TRAIN_AXES:
        for sign in (1, -1):
            criterion, against = (wordings(axis, side, "held_out")[0] for side in (sign, -sign))
            own = with_criterion(pool, criterion)
            found.append(Users(criterion, own, against, truth_of(own)))
    return found


def with_criterion(pool: Sequence[Candidates], criterion: str) -> list[Candidates]:
    """The same responses for somebody with that criterion."""
    return [replace(own, criteria=(criterion,)) for own in pool]
