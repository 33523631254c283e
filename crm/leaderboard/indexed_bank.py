"""A bank that was read once, ready for everybody. In: criteria with weights. Out: `Outcomes`, without another reading.

What a user costs is a short text a criterion and one pass over the vectors. Another baseline, other topics and fewer
models cost arithmetic on scores that are there.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import torch

from crm.io.processes import ALONE, Processes
from crm.judges import CrmJudge, Judge
from crm.leaderboard.bank.bank import Bank
from crm.leaderboard.index import Scores, open_index
from crm.leaderboard.outcomes import BankNumbers, Outcomes
from crm.model.late_reading import Conversation, LateReader, added_up
from crm.schema import GENERIC_CRITERION, short

KEPT_WISHES = 4096
"""Criteria whose vectors are held: 4 KB each."""
KEPT_SCORES = 64
"""Users whose scores are held: 100 KB each of 30 models on 804 queries."""


class _InTurns:
    """A reader for several threads, of which one reads at a time: a shard, or all words that wait; words only once."""

    def __init__(self, reader: LateReader) -> None:
        self.encoder, self.precision, self.size = reader.encoder, reader.precision, reader.size
        self.shared = reader.shared
        self._reader, self._lock = reader, threading.Lock()
        self._read: OrderedDict[str, torch.Tensor] = OrderedDict()
        self._asked: dict[str, None] = {}

    def responses(self, conversations: Sequence[Conversation]) -> torch.Tensor:
        """As `LateReader.responses`."""
        with self._lock:
            return self._reader.responses(conversations)

    def criterion_vectors(self, criteria: Sequence[str]) -> torch.Tensor:
        """As `LateReader.criterion_vectors`."""
        own = dict.fromkeys(criteria)
        self._asked |= own
        with self._lock:
            asked, self._asked = self._asked | own, {}
            if new := [text for text in asked if text not in self._read]:
                self._read.update(zip(new, self._reader.criterion_vectors(new), strict=True))
            for text in own:
                self._read.move_to_end(text)
            while len(self._read) > KEPT_WISHES:
                self._read.popitem(last=False)
            return torch.stack([self._read[text] for text in criteria])

    def user_vector(self, criteria: Sequence[str], weights: Sequence[float] | None) -> torch.Tensor:
        """As `LateReader.user_vector`."""
        return added_up(self.criterion_vectors(list(criteria) or [GENERIC_CRITERION]), weights, self.shared)


class IndexedBank:
    """Scores and outcomes of one bank for any wish, for any number of threads.

    ``folder`` holds indexes; what is missing there is made at once, with a progress bar where ``progress`` is on.
    """

    def __init__(
        self,
        reader: LateReader | _InTurns,
        bank: Bank,
        folder: Path,
        *,
        model_digest: str,
        progress: bool,
        processes: Processes = ALONE,
    ) -> None:
        own = reader if isinstance(reader, _InTurns) else _InTurns(reader)
        self.bank, self.folder, self.model_digest, self.reader = bank, folder, model_digest, own
        self.index = open_index(
            cast(LateReader, own), bank, folder, model_digest=model_digest, progress=progress, processes=processes
        )
        self.numbers = BankNumbers(bank)
        self._lock = threading.Lock()
        self._scores: OrderedDict[tuple[object, ...], Scores] = OrderedDict()

    def with_bank(self, bank: Bank) -> IndexedBank:
        """Another bank by the same judge: only what no bank before had is read."""
        return IndexedBank(self.reader, bank, self.folder, model_digest=self.model_digest, progress=False)

    def outcomes(
        self, criteria: Sequence[str], weights: Sequence[float] | None = None, part: Bank | None = None
    ) -> Outcomes:
        """What the judge says of ``part`` of the bank, or of all of it, to a user with these criteria.

        Each counts ``weights`` times, below 0 where it is disliked. Raises ``ValueError`` for a criterion that is
        longer than the model reads, and for another number of weights.
        """
        with self._lock:
            scores = self._of_wish(tuple(criteria), tuple(weights or ()))
        return self.numbers.outcomes(scores, self.bank if part is None else part)

    def scores(self, criteria: Sequence[str]) -> Scores:
        """(N, Q, M) float32 for each of N criteria as a wish of its own, NaN for what is too long to be read."""
        return self.index.scores(self.reader.criterion_vectors(criteria))

    def _of_wish(self, criteria: tuple[str, ...], weights: tuple[float, ...]) -> Scores:
        """(Q, M); the latest are held."""
        key = (criteria, weights)
        if key not in self._scores:
            self._scores[key] = self.index.scores(self._wish(criteria, weights)[None])[0]
            while len(self._scores) > KEPT_SCORES:
                self._scores.popitem(last=False)
        self._scores.move_to_end(key)
        return self._scores[key]

    def _wish(self, criteria: tuple[str, ...], weights: tuple[float, ...]) -> torch.Tensor:
        wish = self.reader.user_vector(criteria, weights or None)
        if not torch.isfinite(wish).all():
            long = [text for text in criteria if not torch.isfinite(self.reader.user_vector((text,), None)).all()]
            most = self.reader.encoder.max_length
            raise ValueError(f"criteria: {short((long or criteria)[0])} is longer than the {most} tokens that are read")
        return wish


def index_bank(
    judge: Judge, bank: Bank, folder: Path, *, progress: bool, processes: Processes = ALONE
) -> IndexedBank | None:
    """The bank under ``folder``, read by ``judge`` where that was not done yet; ``None`` for one without vectors."""
    if not isinstance(judge, CrmJudge) or judge.late_reader is None:
        return None
    return IndexedBank(
        judge.late_reader, bank, folder, model_digest=judge.model_digest, progress=progress, processes=processes
    )
