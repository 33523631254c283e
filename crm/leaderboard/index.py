"""The index of a bank: a late head's vectors of all responses, read once for every user."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from filelock import FileLock
from rich.progress import Progress

from crm.io.files import drafted, replace_file
from crm.io.processes import ALONE, Processes
from crm.leaderboard.bank.bank import Bank
from crm.model.late_reading import Conversation, LateReader
from crm.schema import Message

log = logging.getLogger(__name__)
FORMAT = 2
PORTION = 8
"""Queries whose responses are read between two saves: what a stopped build loses at most."""
ROWS_AT_ONCE = 256
"""Vectors in float32 at a time: a megabyte, which stays in the caches."""
Halves = npt.NDArray[np.float16]
Scores = npt.NDArray[np.float32]


class BankIndex:
    """The vectors of a bank's responses: (Q, M) of them, each of D numbers, where Q are its queries and M its LLMs."""

    def __init__(self, bank: Bank, vectors: Halves, place: dict[str, int]) -> None:
        self.bank, self.size = bank, vectors.shape[1]
        rows = [place[key] for key, _ in conversations(bank)]
        self._vectors, self._rows = vectors, np.array(rows)

    def scores(self, users: torch.Tensor) -> Scores:
        """(U, Q, M) float32 scores for user vectors (U, D) of `LateReader.wish`; NaN: too long to be read.

        The difference of two scores of a query is the log-odds that this user prefers the first response.
        """
        wanted = users.reshape(-1, self.size).float().T.contiguous()
        found = torch.empty(len(self._rows), wanted.shape[1])
        for start in range(0, len(self._rows), ROWS_AT_ONCE):
            rows = self._rows[start : start + ROWS_AT_ONCE]
            found[start : start + len(rows)] = torch.from_numpy(self._vectors[rows]).float() @ wanted
        shape = (len(self.bank.queries), len(self.bank.authors), -1)
        return np.ascontiguousarray(found.numpy().reshape(shape).transpose(2, 0, 1))

    @property
    def bytes(self) -> int:
        """Of the bank's vectors."""
        return 2 * len(self._rows) * int(self.size)


def open_index(
    reader: LateReader, bank: Bank, folder: Path, *, model_digest: str, progress: bool, processes: Processes = ALONE
) -> BankIndex:
    """The index of ``bank`` under ``folder``; responses that are not there are read and added.

    ``vectors.npy`` (N, D) float16 is memory-mapped; ``keys.json`` holds the digest of the text of every finished row
    and is written after it, so that a stopped build goes on. Several ``processes`` read a share of each portion.
    """
    home = folder / f"index-{index_digest(reader, model_digest)}"
    lock = FileLock(home / ".lock")

    def begin() -> tuple[list[str], int]:
        if wanted.keys() <= set(done := _read_keys(home)):  # also in a folder that is read-only
            return done, 0
        home.mkdir(parents=True, exist_ok=True)
        lock.acquire()
        done = _read_keys(home)
        missing = len(wanted.keys() - set(done))
        _make_room(home / "vectors.npy", len(done), len(done) + missing, reader.size)
        return done, missing

    wanted = dict(conversations(bank))
    try:
        keys, missing = processes.from_first(begin)
        log.info("index %s: %d vectors are there, %d are made now", home, len(keys), missing)
        if missing:
            _fill(reader, home, keys, wanted, PORTION * len(bank.authors) * processes.size, progress, processes)
    finally:
        lock.release()
    return BankIndex(bank, np.load(home / "vectors.npy", mmap_mode="r"), {key: row for row, key in enumerate(keys)})


def _fill(
    reader: LateReader,
    home: Path,
    keys: list[str],
    wanted: dict[str, Conversation],
    size: int,
    progress: bool,
    processes: Processes,
) -> None:
    """Read what ``keys`` lacks, ``size`` at a time, into the rows after them; ``keys`` grows."""
    known = set(keys)
    missing = [key for key in wanted if key not in known]
    vectors = np.load(home / "vectors.npy", mmap_mode="r+")

    def save() -> None:
        if np.isinf(vectors[len(keys) - len(portion) : len(keys)]).any():
            raise ValueError("checkpoint: its vectors are beyond float16's 65,504; it has diverged, use another one")
        replace_file(home / "keys.json", json.dumps({"version": FORMAT, "keys": keys}))

    with Progress(disable=not (progress and processes.first), transient=True) as bar:
        task = bar.add_task("index", total=len(missing))
        for portion in (missing[start : start + size] for start in range(0, len(missing), size)):
            own = processes.share(range(len(portion)))
            texts = [wanted[portion[row]] for row in own]
            vectors[[len(keys) + row for row in own]] = reader.responses(texts).half().numpy()
            vectors.flush()
            processes.wait()
            keys += portion
            processes.from_first(save)
            bar.advance(task, len(portion))


def _read_keys(home: Path) -> list[str]:
    if not (home / "keys.json").is_file() or not (home / "vectors.npy").is_file():
        return []
    found = json.loads((home / "keys.json").read_text(encoding="utf-8"))
    return list(found["keys"])


def _make_room(path: Path, done: int, rows: int, size: int) -> None:
    """Have ``path`` hold ``rows`` vectors, of which the first ``done`` are kept."""
    old = np.load(path, mmap_mode="r") if done else np.empty((0, size), np.float16)
    if done and len(old) >= rows:
        return
    with drafted(path) as draft:
        grown = np.lib.format.open_memmap(draft, "w+", np.float16, (rows, size))
        grown[:done] = old[:done]
        grown.flush()


def index_digest(reader: LateReader, model_digest: str) -> str:
    """Cache key of weights, template, limit and precision: vectors of two models never mix."""
    facts = [FORMAT, model_digest, reader.encoder.digest, reader.encoder.max_length, reader.precision, reader.size]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def text_key(prompt: Sequence[Message], response: str) -> str:
    """32 hex digits of a conversation; names and ids do not count."""
    turns = [[turn.role, turn.content] for turn in prompt]
    return hashlib.sha256(json.dumps([turns, response]).encode()).hexdigest()[:32]


def conversations(bank: Bank) -> list[tuple[str, Conversation]]:
    """Key and text of every response, query by query, in the order of the bank's LLMs."""
    return [
        (text_key(query.prompt, response), (query.prompt, (Message("assistant", response),)))
        for query in bank.queries
        for response in (bank.responses[author][query.id] for author in bank.authors)
    ]
