"""One judge for many people. In: what each wants compared. Out: scores in portions, in fair turns.

Each person's order is a `Ticket`; the judge reads for about `TURN_S` seconds for one ticket, then for the next, so
that a short order never waits for the whole of a long one. The line has so many places and no more. A judge that breaks
ends one ticket and no other.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from crm.judges import Judge
from crm.leaderboard.scoring import ORDERS, TOO_LONG
from crm.page.memory import give_back
from crm.page.pairings import Pairing
from crm.page.score_store import Key, ScoreStore, criteria_key

log = logging.getLogger(__name__)
Scores = dict[Key, float | None]
TURN_S = 0.5
"""Seconds of reading after which the next ticket has its turn; one portion is read whatever it takes."""
BEAT_S = 0.5
IDLE_S = 1.0
"""Seconds without work after which memory is given back; by then the last rankings have been computed."""
CLOSED = "the server is being stopped; what was scored is kept"


class QueueFullError(RuntimeError):
    """All places are taken."""


class ScoringError(RuntimeError):
    """The judge could not go on with a ticket."""


@dataclass(frozen=True)
class Turn:
    """What one turn gave: ``scores`` of so many ``portions``; what the judge cannot read at all has none."""

    scores: Scores
    portions: int


@dataclass(eq=False)
class Ticket:
    """What one person waits for: ``portions`` under their criteria, the smallest that make sense to wait for."""

    criteria: tuple[str, ...]
    portions: deque[Sequence[Pairing]]
    results: SimpleQueue[Turn | ScoringError | None] = field(default_factory=SimpleQueue)
    cancelled: threading.Event = field(default_factory=threading.Event)

    def cancel(self) -> None:
        """Give the place up; what is being read at this moment is still kept."""
        self.cancelled.set()

    def turns(self) -> Iterator[Turn]:
        """What came of the portions, in their order, until there are no more. Raises `ScoringError`.

        Where nothing comes for `BEAT_S` seconds an empty turn does, so that whoever listens can find out that nobody
        is there any more.
        """
        while True:
            try:
                found = self.results.get(timeout=BEAT_S)
            except Empty:
                yield Turn({}, 0)
                continue
            if found is None:
                return
            if isinstance(found, ScoringError):
                raise found
            yield found


class ScoringQueue:
    """One thread that has ``judge`` read what tickets ask for, and keeps it in ``store``.

    ``places`` is the length of the line, those at work included.
    """

    def __init__(self, judge: Judge, store: ScoreStore, *, places: int) -> None:
        self.judge, self.store, self.places = judge, store, places
        self._line: deque[Ticket] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._pace = 0.0
        self._worker = threading.Thread(target=self._work, name="scoring", daemon=True)
        self._worker.start()

    def __len__(self) -> int:
        with self._changed:
            return sum(not ticket.cancelled.is_set() for ticket in self._line)

    def submit(self, criteria: Sequence[str], portions: Sequence[Sequence[Pairing]]) -> Ticket:
        """A place in the line, for both orders of all pairings. Raises `QueueFullError`, with a sentence for people."""
        ticket = Ticket(tuple(criteria), deque(portion for portion in portions if portion))
        with self._changed:
            self._forget_cancelled()
            if self._closed:
                raise QueueFullError(CLOSED)
            if len(self._line) >= self.places:
                raise QueueFullError(
                    f"{self.places} leaderboards are being made right now, please try again in a minute"
                )
            self._line.append(ticket)
            self._changed.notify()
        return ticket

    def close(self) -> None:
        """Stop after the portion at hand; whoever waits is told."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._worker.join()

    def _forget_cancelled(self) -> None:
        for ticket in [ticket for ticket in self._line if ticket.cancelled.is_set()]:
            self._line.remove(ticket)

    def _work(self) -> None:
        while (ticket := self._next()) is not None:
            try:
                while ticket.portions and not ticket.cancelled.is_set():
                    pairings, count = self._next_portions(ticket)
                    scores, made = self._scores(ticket.criteria, pairings)
                    ticket.results.put(Turn(scores, count))
                    if made:
                        break  # what was only looked up has cost nobody a turn
            except Exception as error:
                log.exception("a ticket ended")
                ticket.portions.clear()
                ticket.results.put(ScoringError(f"the judge could not go on ({type(error).__name__}); see its log"))
            if not ticket.portions:
                ticket.results.put(None)
                with self._changed:
                    if ticket in self._line:
                        self._line.remove(ticket)

    def _next(self) -> Ticket | None:
        """The ticket whose turn it is, put last for the turn after; ``None`` when the queue is closed."""
        tidy = False
        with self._changed:
            while True:
                self._forget_cancelled()
                if self._closed:
                    for ticket in self._line:
                        ticket.results.put(ScoringError(CLOSED))
                    return None
                if self._line:
                    self._line.rotate(-1)
                    return self._line[-1]
                if not self._changed.wait(IDLE_S) and not tidy:
                    give_back()
                    tidy = True

    def _next_portions(self, ticket: Ticket) -> tuple[list[Pairing], int]:
        """As many portions as a turn has time for, at the pace of the one before; the first of them in any case."""
        taken, count = list(ticket.portions.popleft()), 1
        while ticket.portions and len(taken) + len(ticket.portions[0]) <= self._pace * TURN_S:
            taken += ticket.portions.popleft()
            count += 1
        return taken, count

    def _scores(self, criteria: tuple[str, ...], pairings: Sequence[Pairing]) -> tuple[Scores, bool]:
        """All there is of the pairings, and whether the judge had to read."""
        of_key = {pairing.key: pairing for pairing in pairings}  # equal texts are read once
        wanted = criteria_key(criteria)
        found: Scores = dict(self.store.known(self.judge.digest, wanted, of_key))
        missing = [(key, order) for key in of_key for order in ORDERS if (key, order) not in found]
        if not missing:
            return found, False
        started = time.perf_counter()
        made = self._read(criteria, of_key, missing)
        self._pace = len(missing) / len(ORDERS) / max(1e-6, time.perf_counter() - started)
        self.store.keep(self.judge.digest, wanted, made.items())
        return found | made, True

    def _read(self, criteria: tuple[str, ...], of_key: Mapping[str, Pairing], missing: Sequence[Key]) -> Scores:
        rows = {key: of_key[key].comparison(criteria) for key, _ in missing}
        keys = {row.id: key for key, row in rows.items()}
        made: Scores = {
            (keys[reading.comparison.id], reading.order): reading.preference_logit
            for readings in self.judge.read([(rows[key], order) for key, order in missing])
            for reading in readings
        }
        if self.judge.left_out == TOO_LONG:  # now and for ever, unlike a reply that did not come
            made |= dict.fromkeys(set(missing) - made.keys())
        return made
