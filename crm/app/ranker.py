"""From a profile to a ranking that grows while one looks. In: a bank, a queue and a profile. Out: `Progress`, often."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

from crm.app.profile import Profile
from crm.app.score_store import comparison_key, criteria_key
from crm.app.scoring_queue import Scores, ScoringQueue
from crm.app.selection import Selector
from crm.leaderboard.bank import Bank
from crm.leaderboard.ranking import Leaderboard
from crm.leaderboard.scoring import ORDERS, bank_comparisons, to_matches
from crm.schema import Comparison, Prediction

EVERY_S = 0.4
"""Seconds between two rankings: a table that changes more often cannot be read."""


@dataclass(frozen=True)
class Progress:
    """How far a ranking is. ``board`` rests on the ``done`` of ``total`` queries; ``None`` before the first.

    ``failed`` counts comparisons without a verdict (too long for the judge, or
    a failure of its own): they are in no ranking.
    """

    profile: Profile
    part: Bank
    board: Leaderboard | None
    done: int
    total: int
    failed: int
    seconds: float
    readings: tuple[Prediction, ...] = ()
    """Both orders of every comparison that the board rests on, ids as `scoring.bank_comparisons` gives them."""

    @property
    def complete(self) -> bool:
        """Whether everything that was asked for has been read."""
        return self.done == self.total


class Ranker:
    """Rankings of one bank by one judge, for any number of people at once."""

    def __init__(self, bank: Bank, queue: ScoringQueue) -> None:
        self.queue = queue
        self.use(bank)

    @property
    def bank(self) -> Bank:
        """The bank as it is now."""
        return self.selector.bank

    def use(self, bank: Bank) -> None:
        """Take another bank from now on; rankings under way stay with theirs."""
        self.selector = Selector(bank)

    def rank(self, profile: Profile) -> Generator[Progress]:
        """Rankings on ever more queries; the last one is `Progress.complete`. Closing the iterator gives the place up.

        While there is nothing new, the same object comes again now and then. Raises `ProfileError` for what the bank
        does not have, and what the queue raises.
        """
        work = _Work(profile, self.selector.select(profile))
        ticket = self.queue.submit([[(row, order) for row in block for order in ORDERS] for block in work.blocks])
        shown = 0.0
        last = work.progress()
        try:
            yield last
            for turn in ticket.turns():
                work.add(turn.scores, turn.portions)
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

    def known(self, profile: Profile) -> Progress:
        """What is in the store by now, without asking the judge: the queries that all models have been read on."""
        part = self.selector.select(profile)
        work = _Work(profile, part)
        keys = {comparison_key(row) for block in work.blocks for row in block}
        scores = self.queue.store.known(self.queue.judge.digest, criteria_key(profile.told), keys)
        for block in work.blocks:
            wanted = [(comparison_key(row), order) for row in block for order in ORDERS]
            if all(key in scores for key in wanted):
                work.read += _predictions(block, scores)
                work.done += 1
        return work.progress()


class _Work:
    """Comparisons of a part, a block a query, and what has become of them."""

    def __init__(self, profile: Profile, part: Bank) -> None:
        self.profile, self.part = profile, part
        rows = bank_comparisons(part, profile.told, part.baseline)
        self.size = len(part.responses) - 1
        self.blocks = [rows[start : start + self.size] for start in range(0, len(rows), self.size)]
        self.read: list[Prediction] = []
        self.done = 0
        self._started = time.perf_counter()

    def add(self, scores: Scores, count: int) -> None:
        """The scores of the next ``count`` blocks."""
        for block in self.blocks[self.done : self.done + count]:
            self.read += _predictions(block, scores)
        self.done += count

    def progress(self) -> Progress:
        """The ranking by now."""
        matches = to_matches(self.part, self.part.baseline, self.read)
        board = Leaderboard(matches) if matches else None
        failed = self.done * self.size - len(matches)
        seconds = time.perf_counter() - self._started
        read = tuple(self.read)
        return Progress(self.profile, self.part, board, self.done, len(self.blocks), failed, seconds, read)


def _predictions(rows: Sequence[Comparison], scores: Scores) -> Iterator[Prediction]:
    for row in rows:
        key = comparison_key(row)
        for order in ORDERS:
            if (key, order) in scores:
                logit = scores[key, order]
                failure = None if logit is not None else "failed"
                yield Prediction(row.id, order, logit, row.label, row.cluster, "", "", failure=failure)
