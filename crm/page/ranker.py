"""From a profile to a ranking that grows while one looks. In: a bank, a queue, a profile. Out: `PartialRanking`s."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from crm.leaderboard import Leaderboard
from crm.leaderboard.bank import Bank
from crm.leaderboard.scoring import ORDERS
from crm.page.pairings import JudgedPair, Pairing
from crm.page.profile import Profile, ProfileError
from crm.page.score_store import criteria_key
from crm.page.scoring_queue import Scores, ScoringQueue
from crm.page.selection import Selector
from crm.schema import Match

EVERY_S = 0.4
"""Seconds between two rankings: a table that changes more often cannot be read."""


@dataclass(frozen=True)
class PartialRanking:
    """How far a ranking is. ``board`` rests on the ``done`` of ``total`` queries; ``None`` before the first.

    ``failed`` counts comparisons without a verdict: too long for the judge, or a failure of its own, which count as
    lost unless nobody could be read on their query; or no answer, and their query is left out.
    """

    profile: Profile
    part: Bank
    board: Leaderboard | None
    done: int
    total: int
    failed: int
    seconds: float
    verdicts: Callable[[str], Sequence[JudgedPair]] = lambda _: ()
    """Of a model: what its place rests on."""
    unheard: tuple[str, ...] = ()
    """Lines of the profile that the judge does not react to, where it can tell."""

    @property
    def complete(self) -> bool:
        """Whether everything that was asked for has been read."""
        return self.done == self.total


class Ranker:
    """Rankings of one bank by one judge, for any number of people at once."""

    instant = False
    """Whether a ranking is there at once, and each criterion is read alone and counts by its weight."""

    def __init__(self, bank: Bank, queue: ScoringQueue) -> None:
        self.queue = queue
        self.use(bank)

    @property
    def bank(self) -> Bank:
        """The bank as it is now."""
        return self.selector.bank

    @property
    def in_line(self) -> int:
        """People whose rankings are being made."""
        return len(self.queue)

    @property
    def folder(self) -> Path:
        """Where its scores are kept."""
        return self.queue.store.path.parent

    def use(self, bank: Bank) -> None:
        """Take another bank from now on; rankings under way stay with theirs."""
        self.selector = Selector(bank)

    def rank(self, profile: Profile) -> Generator[PartialRanking]:
        """Rankings on ever more queries; the last one is complete. Closing the iterator gives the place up.

        While there is nothing new, the same object comes again now and then. Raises `ProfileError` for what the bank
        does not have, and what the queue raises.
        """
        work = self._work(profile)
        ticket = self.queue.submit(profile.told, work.blocks)
        shown = time.perf_counter()  # what is known already is complete before the first part would be shown
        last = work.progress()
        try:
            yield last
            for turn in ticket.turns():
                for block in work.blocks[work.done : work.done + turn.portions]:
                    work.add(block, turn.scores)
                if work.done == len(work.blocks):
                    continue
                if turn.portions and time.perf_counter() - shown >= EVERY_S:
                    shown = time.perf_counter()
                    last = work.progress()
                    yield last
                elif not turn.portions:
                    yield last
            yield work.progress()
        finally:
            ticket.cancel()

    def known(self, profile: Profile) -> PartialRanking:
        """What is in the store by now, without asking the judge: the queries that all models have been read on."""
        work = self._work(profile)
        keys = {pairing.key for block in work.blocks for pairing in block}
        scores = self.queue.store.known(self.queue.judge.digest, criteria_key(profile.told), keys)
        for block in work.blocks:
            if all((pairing.key, order) in scores for pairing in block for order in ORDERS):
                work.add(block, scores)
        return work.progress()

    def judge_pairs(self, profile: Profile, pairings: Sequence[Pairing]) -> list[float | None]:
        """Log-odds for each of ``pairings``, of any texts; None where there is no verdict."""
        scores: Scores = {}
        ticket = self.queue.submit(profile.told, [pairings])
        try:
            for turn in ticket.turns():
                scores = {**scores, **turn.scores}
        finally:
            ticket.cancel()
        both = [[scores.get((pairing.key, order)) for order in ORDERS] for pairing in pairings]
        return [None if None in orders else sum(filter(None, orders)) / 2 for orders in both]

    def _work(self, profile: Profile) -> _Work:
        if profile.weights:
            raise ProfileError(
                "weights: this judge reads all criteria as one text and cannot weigh them; leave them out"
            )
        selector = self.selector  # the same for part and pairings, whatever bank comes meanwhile
        part = selector.select(profile)
        return _Work(profile, part, selector.pairings(part))


class _Work:
    """Pairings of a part, a block a query, and what has become of them."""

    def __init__(self, profile: Profile, part: Bank, blocks: Sequence[Sequence[Pairing]]) -> None:
        self.profile, self.part, self.blocks = profile, part, blocks
        self.done = 0
        self._failed = 0
        self._ranked = False  # whether a query is answered for all models
        self._judged: list[JudgedPair] = []
        self._matches: list[Match] = []
        self._started = time.perf_counter()

    def add(self, block: Sequence[Pairing], scores: Scores) -> None:
        """The scores of one block."""
        self.done += 1
        matches: list[Match] = []
        for pairing in block:
            keys = [(pairing.key, order) for order in ORDERS]
            first, second = map(scores.get, keys)
            if first is None or second is None:
                self._failed += 1
                matches.append(pairing.match(None, answered=all(key in scores for key in keys)))
            else:
                self._judged.append(JudgedPair(pairing, first, second))
                matches.append(pairing.match(self._judged[-1].logit))
        self._matches += matches
        answered, read = (all(m.answered for m in matches), any(m.preference_logit is not None for m in matches))
        self._ranked |= answered and read

    def progress(self) -> PartialRanking:
        """The ranking by now."""
        board = Leaderboard(self._matches) if self._ranked else None
        seconds = time.perf_counter() - self._started
        read = tuple(self._judged)

        def verdicts(model: str) -> Sequence[JudgedPair]:
            return [verdict for verdict in read if verdict.pairing.candidate == model]

        counts = (self.done, len(self.blocks), self._failed)
        return PartialRanking(self.profile, self.part, board, *counts, seconds, verdicts)
