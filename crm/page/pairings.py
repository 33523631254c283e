"""Which responses are compared on a query. In: a bank's texts. Out: `Pairing`s, made once, for everybody's criteria."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crm.io.words import count_words
from crm.leaderboard.bank import Bank
from crm.leaderboard.bank.bank import BankQuery
from crm.leaderboard.scoring import bank_comparison
from crm.page.score_store import comparison_key
from crm.schema import Comparison, Match


@dataclass(frozen=True, slots=True)
class Pairing:
    """A candidate's response beside the baseline's on one query, without anybody's criteria; lengths are in words.

    Pairings of equal texts have the same ``key``, whoever wrote them.
    """

    query: BankQuery
    candidate: str
    baseline: str
    response: str
    baseline_response: str
    key: str
    length: int
    baseline_length: int

    def comparison(self, criteria: Sequence[str]) -> Comparison:
        """What the judge is asked about; the candidate's is response A."""
        return bank_comparison(self.query, self.candidate, self.response, self.baseline_response, criteria)

    def match(self, logit: float | None, answered: bool = True) -> Match:
        """As `scoring.to_matches` would make it; without a ``logit`` where the judge gave no verdict."""
        lengths = self.length, self.baseline_length
        query = self.query
        return Match(query.id, query.topic, self.candidate, self.baseline, logit, *lengths, answered=answered)


@dataclass(frozen=True, slots=True)
class JudgedPair:
    """Log-odds that the candidate's response of ``pairing`` is preferred, shown first and shown second."""

    pairing: Pairing
    shown_first: float
    shown_second: float

    @property
    def logit(self) -> float:
        """The mean of both orders."""
        return (self.shown_first + self.shown_second) / 2


def make_pairings(bank: Bank, baseline: str, query: BankQuery) -> tuple[Pairing, ...]:
    """Every candidate beside ``baseline`` on one query, in the order of `Bank.authors`."""
    return tuple(make_pairing(bank, baseline, query, author) for author in bank.authors if author != baseline)


def make_pairing(bank: Bank, baseline: str, query: BankQuery, author: str) -> Pairing:
    """One candidate beside ``baseline`` on one query."""
    ours, theirs = bank.responses[author][query.id], bank.responses[baseline][query.id]
    key = comparison_key(bank_comparison(query, author, ours, theirs, ()))
    return Pairing(query, author, baseline, ours, theirs, key, count_words(ours), count_words(theirs))
