"""A bank read once for every user: a late head's vectors of all responses, and outcomes for any criteria."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from filelock import FileLock
from rich.progress import Progress

from crm.io.files import drafted, replace_file
from crm.io.processes import ALONE, Processes
from crm.judges.crm_judge import CrmJudge
from crm.judges.judge import Judge
from crm.leaderboard.bank.bank import Bank, text_key
from crm.leaderboard.outcomes import BankNumbers, Outcomes
from crm.model.late_reading import Conversation, LateReader, added_up
from crm.schema import GENERIC_CRITERION, Message, short

log = logging.getLogger(__name__)
FORMAT = 2
PORTION = 8
"""Queries whose responses are read between two saves: what a stopped build loses at most."""
ROWS_AT_ONCE = 256
"""Vectors in float32 at a time: a megabyte, which stays in the caches."""
MAX_CRITERIA = 4096
"""Criteria whose vectors are cached: 4 KB each."""
Scores = npt.NDArray[np.float32]


class IndexedBank:
    """Scores and outcomes of a bank of Q queries and M models, for any number of threads; ``folder`` holds indexes."""

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
        facts = [FORMAT, model_digest, reader.encoder.digest, reader.encoder.max_length, reader.precision, reader.size]
        digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
        self._home = folder / f"index-{digest[:16]}"  # two models never mix
        place = {key: row for row, key in enumerate(self._build(progress, processes))}
        self._index = np.load(self._home / "vectors.npy", mmap_mode="r")
        self._rows = np.array([place[key] for key, _ in conversations(bank)])
        self._lock = threading.Lock()
        self._vector = lru_cache(MAX_CRITERIA)(lambda text: reader.criterion_vectors([text])[0])

    def _build(self, progress: bool, processes: Processes) -> list[str]:
        """The keys of all vectors, those of the bank among them; responses that are not there are read and added.

        ``vectors.npy`` (N, D) float16 is memory-mapped; ``keys.json`` holds the digest of the text of every finished
        row and is written after it, so that a stopped build goes on. Several ``processes`` read a share of each
        portion.
        """
        lock, wanted = FileLock(self._home / ".lock"), dict(conversations(self.bank))

        def begin() -> list[str]:
            if wanted.keys() <= set(done := _read_keys(self._home)):  # also in a folder that is read-only
                return done
            self._home.mkdir(parents=True, exist_ok=True)
            lock.acquire()
            done = _read_keys(self._home)
            _make_room(self._home / "vectors.npy", len(done), len(wanted.keys() | set(done)), self.reader.size)
            return done

        try:
            keys = processes.from_first(begin)
            known = set(keys)
            missing = {key: text for key, text in wanted.items() if key not in known}
            log.info("index %s: %d vectors are there, %d are made now", self._home, len(keys), len(missing))
            if missing:
                self._fill(keys, missing, progress, processes)
        finally:
            lock.release()
        return keys

    def _fill(self, keys: list[str], missing: dict[str, Conversation], progress: bool, processes: Processes) -> None:
        """Read what is ``missing``, some queries at a time, into the rows after ``keys``, which grows."""
        vectors = np.load(self._home / "vectors.npy", mmap_mode="r+")

        def save() -> None:
            if np.isinf(vectors[len(keys) - len(portion) : len(keys)]).any():
                raise ValueError(
                    "checkpoint: its vectors are beyond float16's 65,504; it has diverged, use another one"
                )
            replace_file(self._home / "keys.json", json.dumps({"version": FORMAT, "keys": keys}))

        size = PORTION * len(self.bank.authors) * processes.size
        with Progress(disable=not (progress and processes.first), transient=True) as bar:
            task = bar.add_task("index", total=len(missing))
            for start in range(0, len(missing), size):
                portion = list(missing)[start : start + size]
                own = processes.share(range(len(portion)))
                texts = [missing[portion[row]] for row in own]
                vectors[[len(keys) + row for row in own]] = self.reader.responses(texts).half().numpy()
                vectors.flush()
                processes.wait()
                keys += portion
                processes.from_first(save)
                bar.advance(task, len(portion))

    def vectors(self, criteria: Sequence[str]) -> torch.Tensor:
        """(N, D) float32, one row a criterion, NaN for one that is too long; each is read once."""
        with self._lock:
            return torch.stack([self._vector(text) for text in criteria])

    def scores(self, criteria: Sequence[str]) -> Scores:
        """(N, Q, M) float32 for each of N criteria by itself, NaN for what is too long to be read."""
        return self.scores_for(self.vectors(criteria))

    def scores_for(self, users: torch.Tensor) -> Scores:
        """(U, Q, M) float32 scores for user vectors (U, D); NaN: too long to be read.

        The difference of two scores of a query is the log-odds that this user prefers the first response.
        """
        wanted = users.reshape(-1, self.reader.size).float().T.contiguous()
        found = torch.empty(len(self._rows), wanted.shape[1])
        for start in range(0, len(self._rows), ROWS_AT_ONCE):
            rows = self._rows[start : start + ROWS_AT_ONCE]
            found[start : start + len(rows)] = torch.from_numpy(self._index[rows]).float() @ wanted
        shape = (len(self.bank.queries), len(self.bank.authors), -1)
        return np.ascontiguousarray(found.numpy().reshape(shape).transpose(2, 0, 1))

    def user(self, criteria: Sequence[str], weights: Sequence[float] | None = None) -> torch.Tensor:
        """(D,) a user with these criteria, each counted ``weights`` times, below 0 where it is disliked.

        Raises ``ValueError`` for a criterion that is longer than the model reads, and for another number of weights.
        """
        vectors = self.vectors(list(criteria) or [GENERIC_CRITERION])
        user = added_up(vectors, list(weights or ()) or None)
        if not torch.isfinite(user).all():
            long = criteria[int((~torch.isfinite(vectors)).any(dim=1).int().argmax())]
            most = self.reader.encoder.max_length
            raise ValueError(f"criteria: {short(long)} is longer than the {most} tokens that are read")
        return user

    def outcomes(
        self, criteria: Sequence[str], weights: Sequence[float] | None = None, part: Bank | None = None
    ) -> Outcomes:
        """Outcomes of ``part`` of the bank, or of all of it, for a `user`; raises ``ValueError`` as `user` does."""
        scores = self.scores_for(self.user(criteria, weights))[0]
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


def _read_keys(home: Path) -> list[str]:
    if not (home / "keys.json").is_file() or not (home / "vectors.npy").is_file():
        return []
    return list(json.loads((home / "keys.json").read_text(encoding="utf-8"))["keys"])


def _make_room(path: Path, done: int, rows: int, size: int) -> None:
    """Have ``path`` hold ``rows`` vectors, of which the first ``done`` are kept."""
    old = np.load(path, mmap_mode="r") if done else np.empty((0, size), np.float16)
    if done and len(old) >= rows:
        return
    with drafted(path) as draft:
        grown = np.lib.format.open_memmap(draft, "w+", np.float16, (rows, size))
        grown[:done] = old[:done]
        grown.flush()


def conversations(bank: Bank) -> list[tuple[str, Conversation]]:
    """Key and text of every response, query by query, in the order of the bank's LLMs."""
    return [
        (text_key(query.prompt, response), (query.prompt, (Message("assistant", response),)))
        for query in bank.queries
        for response in (bank.responses[author][query.id] for author in bank.authors)
    ]
