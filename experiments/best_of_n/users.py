"""Who chooses from what: candidates and gold of each user.

In the arena a criterion is one side of an axis that judges train on, and gold is the truth. On real text it is more or
less of a countable trait, and gold is the count. Training never had the words of either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from crm.data.sampling import turn
from crm.data.simulation.lexicon import AUTHORS, TOPIC, TRAIN_AXES, queries, wordings
from crm.data.simulation.responses import write
from crm.io.draws import generator
from crm.judges.controls import OracleJudge
from crm.leaderboard.bank.opening import read_public_bank
from crm.report.statistics import Floats
from crm.rewards.best_of_n import Candidates, of_bank, table
from crm.rewards.scoring import Rewards
from experiments.real_judge.source import UNSEEN_TRAITS, unseen_queries
from experiments.real_judge.traits import TRAITS, wording

DATA_SEED = 1
"""Of the split of the real judge's data: its suites hold the queries that it never met."""


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


def of_alpacaeval(root: str, *, queries: int) -> list[Users]:
    """54 criteria about the responses of AlpacaEval's 30 LLMs to the first ``queries`` that the judge never met."""
    bank, unseen = read_public_bank("alpacaeval", root), unseen_queries(root, DATA_SEED)
    pool = of_bank(bank.of_queries([query for query in bank.queries if query.id in unseen][:queries]))
    found = []
    for trait in TRAITS:
        counted = table([[trait.measure(text) / trait.measure.clear for text in own.responses] for own in pool])
        for sign in (1, -1) if trait.name not in UNSEEN_TRAITS else ():
            criterion, against = (wording(trait.name, side).unseen[0] for side in (sign, -sign))
            name = f"{'more' if sign > 0 else 'less'}: {trait.name}"
            found.append(Users(name, with_criterion(pool, criterion), against, sign * counted))
    return found


def with_criterion(pool: Sequence[Candidates], criterion: str) -> list[Candidates]:
    """The same responses for somebody with that criterion."""
    return [replace(own, criteria=(criterion,)) for own in pool]
