"""A bank with its index: outcomes for any criteria with weights, without reading a response again."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import torch

from crm.io.processes import ALONE, Processes
from crm.judges.crm_judge import CrmJudge
from crm.judges.judge import Judge
from crm.leaderboard.bank.bank import Bank
from crm.leaderboard.index import Scores, open_index
from crm.leaderboard.outcomes import BankNumbers, Outcomes
from crm.model.late_reading import LateReader, added_up
from crm.schema import GENERIC_CRITERION, short

MAX_CRITERIA = 4096
"""Criteria whose vectors are cached: 4 KB each."""


class IndexedBank:
    """Scores and outcomes of one bank for any number of threads; ``folder`` holds indexes."""

    def __init__(
        self,
        reader: LateReader,
        bank: Bank,
        folder: Path,
        *,
        model_digest: str,
        progress: bool,
        processes: Processes = ALONE,
    ) -> None:
        self.bank, self.reader, self.numbers = bank, reader, BankNumbers(bank)
        self.index = open_index(reader, bank, folder, model_digest=model_digest, progress=progress, processes=processes)
        self._lock = threading.Lock()
        self._vectors: dict[str, torch.Tensor] = {}

    def vectors(self, criteria: Sequence[str]) -> torch.Tensor:
        """(N, D) float32, one row a criterion, NaN for one that is too long; each is read once."""
        with self._lock:
            if new := [text for text in dict.fromkeys(criteria) if text not in self._vectors]:
                if len(self._vectors) + len(new) > MAX_CRITERIA:
                    self._vectors = {text: self._vectors[text] for text in criteria if text in self._vectors}
                self._vectors.update(zip(new, self.reader.wishes(new), strict=True))
            return torch.stack([self._vectors[text] for text in criteria])

    def scores(self, criteria: Sequence[str]) -> Scores:
        """(N, Q, M) float32 for each of N criteria by itself, NaN for what is too long to be read."""
        return self.index.scores(self.vectors(criteria))

    def user(self, criteria: Sequence[str], weights: Sequence[float] | None = None) -> torch.Tensor:
        """(D,) a user with these criteria, each counted ``weights`` times, below 0 where it is disliked.

        Raises ``ValueError`` for a criterion that is longer than the model reads, and for another number of weights.
        """
        vectors = self.vectors(list(criteria) or [GENERIC_CRITERION])
        user = added_up(vectors, list(weights or ()) or None, self.reader.shared)
        if not torch.isfinite(user).all():
            long = [text for text, vector in zip(criteria, vectors, strict=True) if not torch.isfinite(vector).all()]
            most = self.reader.encoder.max_length
            raise ValueError(f"criteria: {short((long or criteria)[0])} is longer than the {most} tokens that are read")
        return user

    def outcomes(
        self, criteria: Sequence[str], weights: Sequence[float] | None = None, part: Bank | None = None
    ) -> Outcomes:
        """Outcomes of ``part`` of the bank, or of all of it, for a `user`; raises ``ValueError`` as `user` does."""
        scores = self.index.scores(self.user(criteria, weights))[0]
        return self.numbers.outcomes(scores, self.bank if part is None else part)


def index_bank(
    judge: Judge, bank: Bank, folder: Path, *, progress: bool, processes: Processes = ALONE
) -> IndexedBank | None:
    """The bank under ``folder``, read by ``judge`` where that was not done yet; ``None`` for one without vectors."""
    if not isinstance(judge, CrmJudge) or judge.late_reader is None:
        return None
    return IndexedBank(
        judge.late_reader, bank, folder, model_digest=judge.model_digest, progress=progress, processes=processes
    )
