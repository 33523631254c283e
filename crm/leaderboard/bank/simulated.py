"""A bank of simulated LLMs with known true win rates."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crm.data.simulation.lexicon import AUTHORS, BASELINE, TOPICS, Query, nearest_wording, pole_of, queries, write
from crm.leaderboard.bank.bank import Bank, BankQuery
from crm.schema import Message


@dataclass(frozen=True, slots=True)
class SimulatedBank:
    """A bank and its truth: ``levels[author][query id][axis]`` is -1, 0 or +1."""

    bank: Bank
    levels: Mapping[str, Mapping[str, Mapping[str, int]]]


def _draw_queries(seed: int, per_topic: int) -> dict[str, Query]:
    chosen = {}
    for topic in TOPICS:
        reserved = queries(topic.name, "bank")
        if not 0 < per_topic <= len(reserved):
            raise ValueError(f"queries_per_topic: {per_topic} is not between 1 and {len(reserved)}")
        slug = re.sub(r"[^a-z]+", "-", topic.name.lower())
        # Consecutive from a place of the seed's own, around the end: all different, and in an already random order.
        start = (seed * per_topic) % len(reserved)
        for index in range(per_topic):
            chosen[f"{slug}-{index:03d}"] = reserved[(start + index) % len(reserved)]
    return chosen


def simulate_bank(*, seed: int, queries_per_topic: int = 20) -> SimulatedBank:
    """Responses of all simulated LLMs to queries of all twelve topics.

    The queries are set aside for banks: no preference of the arena uses them.
    """
    chosen = _draw_queries(seed, queries_per_topic)
    written = {name: {key: write(seed, name, query) for key, query in chosen.items()} for name in AUTHORS}
    bank = Bank(
        name=f"simulation-{seed}",
        baseline=BASELINE,
        queries=tuple(BankQuery(key, (Message("user", query.text),), query.topic) for key, query in chosen.items()),
        responses={name: {key: response.text for key, response in row.items()} for name, row in written.items()},
    )
    levels = {name: {key: response.levels for key, response in row.items()} for name, row in written.items()}
    return SimulatedBank(bank, levels)


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
