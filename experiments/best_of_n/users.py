"""Who chooses from what. In: seeds and sizes, or a public bank. Out: candidates and gold of each wish, under its name.

On the arena a wish is a side of an axis that judges train on, in words that training never had; gold is the truth. On
real text it is more or less of a countable trait, in words that training never had; gold is what is counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from crm.config import compose
from crm.criteria.counting import TRAITS
from crm.judges import open_judge
from crm.leaderboard.bank.public import read_public_bank
from crm.rewards.best_of_n.candidates import Candidates, of_bank, simulated
from crm.rewards.best_of_n.estimator import Floats
from crm.rewards.best_of_n.gold import by_judge, by_trait, wish_for
from crm.rewards.scoring import Rewards
from crm.votes.simulation.taste import TRAIN_AXES, wordings
from experiments.real_judge.source import UNSEEN_TRAITS, unseen_queries

DATA_SEED = 1
"""Of the split of the real judge's data: its suites hold the queries that it never met."""


@dataclass(frozen=True)
class Users:
    """Everybody with one wish, a query each, and ``gold`` (Q, n) of the responses that they choose from."""

    name: str
    candidates: list[Candidates]
    gold: Floats


def of_arena(*, seed: int, queries: int, n: int, folder: Path) -> list[Users]:
    """26 wishes about the same responses; the two of an axis stand together, each the other's opposite."""
    pool = simulated(seed=seed, count=queries, n=n)
    truth = Rewards(open_judge(compose("best_of_n", ["judge=oracle"], folder)).judge)
    found = []
    for axis in TRAIN_AXES:
        for sign in (1, -1):
            wish, against = (wordings(axis, side, "held_out")[0] for side in (sign, -sign))
            own = with_wish(pool, wish, against)
            found.append(Users(wish, own, by_judge(truth, own)))
    return found


def of_alpacaeval(root: str, *, queries: int) -> list[Users]:
    """54 wishes about the responses of AlpacaEval's 30 LLMs to the first ``queries`` that the real judge never met."""
    bank, unseen = read_public_bank("alpacaeval", root), unseen_queries(root, DATA_SEED)
    own = [query for query in bank.queries if query.id in unseen][:queries]
    pool = of_bank(bank.of_queries(own))
    found = []
    for trait in TRAITS:
        for sign in (1, -1) if trait.name not in UNSEEN_TRAITS else ():
            asked = with_wish(pool, wish_for(trait.name, sign), wish_for(trait.name, -sign))
            found.append(Users(f"{'more' if sign > 0 else 'less'}: {trait.name}", asked, by_trait(asked, trait, sign)))
    return found


def with_wish(pool: Sequence[Candidates], wish: str, against: str) -> list[Candidates]:
    """The same responses for somebody with that wish."""
    return [replace(own, criteria=(wish,), opposite=(against,)) for own in pool]
