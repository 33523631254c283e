"""From a profile to a whole ranking at once. In: an indexed bank, a profile. Out: one `PartialRanking`, complete.

Nobody waits in a line: words cost one short reading, and all else is arithmetic.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from pathlib import Path

import numpy as np

from crm.leaderboard import Leaderboard
from crm.leaderboard.bank import Bank
from crm.leaderboard.bank_judge import IndexedBank
from crm.page.pairings import JudgedPair, make_pairing
from crm.page.profile import Profile, ProfileError
from crm.page.ranker import PartialRanking, Ranker
from crm.page.selection import Selector


class IndexRanker:
    """Rankings of a bank whose responses were read before anybody asked; as `Ranker` to whoever uses it."""

    in_line = 0
    """People whose rankings are being made: each has it before the next asks."""

    def __init__(self, indexed: IndexedBank) -> None:
        self.indexed = indexed
        self.selector = Selector(indexed.bank)

    @property
    def bank(self) -> Bank:
        """The bank as it is now."""
        return self.selector.bank

    @property
    def folder(self) -> Path:
        """Where its index is kept."""
        return self.indexed.folder

    def use(self, bank: Bank) -> None:
        """Take another bank, once what it has more has been read."""
        self.indexed.use(bank)
        self.selector = Selector(bank)

    def rank(self, profile: Profile) -> Generator[PartialRanking]:
        """The ranking. Raises `ProfileError` for what the bank does not have or the model cannot read."""
        yield self.known(profile)

    def known(self, profile: Profile) -> PartialRanking:
        """The ranking: all is known."""
        started = time.perf_counter()
        part = self.selector.select(profile)
        try:
            outcomes = self.indexed.outcomes(*wish_of(profile), part)
        except ValueError as error:
            raise ProfileError(str(error)) from None
        board = Leaderboard(outcomes) if outcomes.readable.any() else None
        logits = dict(zip(outcomes.models, outcomes.logits.T, strict=True))
        place = {query: row for row, query in enumerate(outcomes.queries)}

        def verdicts(model: str) -> Sequence[JudgedPair]:
            """Both orders are one: a response is read alone."""
            told = ((query, float(logits[model][place[query.id]])) for query in part.queries)
            return [
                JudgedPair(make_pairing(part, part.baseline, query, model), logit, logit)
                for query, logit in told
                if not np.isnan(logit)
            ]

        counts = (len(part.queries), len(part.queries), int(outcomes.unread.sum()))
        return PartialRanking(profile, part, board, *counts, time.perf_counter() - started, verdicts)


AnyRanker = Ranker | IndexRanker


def wish_of(profile: Profile) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Criteria and weights: what is disliked counts against a response."""
    if not (profile.criteria or profile.dislikes):
        return profile.told, ()
    weights = (1.0,) * len(profile.criteria) + (-1.0,) * len(profile.dislikes)
    return (*profile.criteria, *profile.dislikes), weights
