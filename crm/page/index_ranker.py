"""From a profile to a whole ranking at once. In: an indexed bank, a profile. Out: one `PartialRanking`, complete.

Nobody waits in a line: words cost one short reading, and all else is arithmetic.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from crm.leaderboard import Leaderboard
from crm.leaderboard.bank import Bank
from crm.leaderboard.bank_judge import IndexedBank
from crm.page.pairings import JudgedPair, Pairing, make_pairing
from crm.page.profile import Profile, ProfileError
from crm.page.ranker import PartialRanking, Ranker
from crm.page.reaction import Reaction
from crm.page.selection import Selector
from crm.schema import Message


@dataclass(frozen=True)
class Now:
    """A bank, and what belongs to it alone: whoever holds it sees one bank, whichever comes meanwhile."""

    indexed: IndexedBank
    selector: Selector
    reaction: Reaction


class IndexRanker:
    """Rankings of a bank whose responses were read before anybody asked; as `Ranker` to whoever uses it."""

    instant = True
    in_line = 0
    """People whose rankings are being made: each has it before the next asks."""

    def __init__(self, indexed: IndexedBank) -> None:
        self.now = Now(indexed, Selector(indexed.bank), Reaction(indexed))

    @property
    def bank(self) -> Bank:
        """The bank as it is now."""
        return self.now.indexed.bank

    @property
    def selector(self) -> Selector:
        """Of the bank as it is now."""
        return self.now.selector

    @property
    def folder(self) -> Path:
        """Where its index is kept."""
        return self.now.indexed.folder

    def use(self, bank: Bank) -> None:
        """Take another bank, once what it has more has been read."""
        indexed = self.now.indexed.with_bank(bank)
        self.now = Now(indexed, Selector(bank), Reaction(indexed))

    def read(self, profile: Profile) -> None:
        """All of its `known` that takes a while: its words, together with those of whoever waits, and its queries.

        Raises `ProfileError` as `known` does.
        """
        now = self.now
        now.selector.select(profile)
        now.indexed.reader.wishes(wish_of(profile)[0])
        now.reaction.prepare((*profile.criteria, *profile.dislikes))

    def rank(self, profile: Profile) -> Generator[PartialRanking]:
        """The ranking. Raises `ProfileError` for what the bank does not have or the model cannot read."""
        yield self.known(profile)

    def judge_pairs(self, profile: Profile, pairings: Sequence[Pairing]) -> list[float | None]:
        """As `Ranker.judge_pairs`: texts that the index does not hold are read now."""
        reader = self.now.indexed.reader
        sides = [(pairing.response, pairing.baseline_response) for pairing in pairings]
        texts = [
            (pairing.query.prompt, (Message("assistant", text),))
            for pairing, pair in zip(pairings, sides, strict=True)
            for text in pair
        ]
        first, second = (reader.responses(texts) @ reader.wish(*wish_of(profile))).view(-1, 2).T.tolist()
        return [None if np.isnan(own - other) else own - other for own, other in zip(first, second, strict=True)]

    def known(self, profile: Profile) -> PartialRanking:
        """The ranking: all is known."""
        started = time.perf_counter()
        now = self.now
        part = now.selector.select(profile)
        try:
            outcomes = now.indexed.outcomes(*wish_of(profile), part)
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
        unheard = now.reaction.unheard((*profile.criteria, *profile.dislikes))
        return PartialRanking(profile, part, board, *counts, time.perf_counter() - started, verdicts, unheard)


AnyRanker = Ranker | IndexRanker


def wish_of(profile: Profile) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Criteria and weights: what is disliked counts against a response."""
    if not (profile.criteria or profile.dislikes):
        return profile.told, (1.0,)
    lines = (*profile.criteria, *profile.dislikes)
    sizes = profile.weights or (1.0,) * len(lines)
    likes = len(profile.criteria)
    return lines, (*sizes[:likes], *(-size for size in sizes[likes:]))
