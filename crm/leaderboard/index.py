"""The index of a bank: what every response leaves, read once for everybody. In: a late reader, a bank. Out: scores.

Vectors lie in shards, float16 and memory-mapped, each with a marker that is written last: it says whose they are (by
digests of the texts) and what the bytes were. A build that was killed goes on with the shards that are missing and
comes to the same files, to the bit. A new LLM adds shards of its own responses. A shard whose bytes differ from its
marker is made again; several processes may build at once, since each writes whole files that are alike.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from rich.progress import track

from crm.io.files import drafted, replace_file
from crm.leaderboard.bank.bank import Bank
from crm.model.late_reading import Conversation, LateReader
from crm.model.manifest import sha256
from crm.schema import Message

log = logging.getLogger(__name__)
FORMAT = 1
SHARD_QUERIES = 8
"""Queries of a shard: a minute of work at most on a slow machine, so that little is lost by a kill."""
Halves = npt.NDArray[np.float16]
Scores = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Shard:
    """A file of vectors, and the digests of their texts in its order."""

    path: Path
    keys: tuple[str, ...]


class BankIndex:
    """The vectors of a bank's responses: (Q, M) of them, each of D numbers, where Q are its queries and M its LLMs."""

    def __init__(self, bank: Bank, shards: Sequence[_Shard], size: int) -> None:
        self.bank, self.size = bank, size
        keys = list(_keys_of(bank))
        place = {key: (number, row) for number, shard in enumerate(shards) for row, key in enumerate(shard.keys)}
        used = sorted({place[key][0] for key in keys})
        self._shards = [np.load(shards[number].path, mmap_mode="r") for number in used]
        starts = dict(zip(used, np.cumsum([0, *(len(shard) for shard in self._shards)]), strict=False))
        order = [starts[number] + row for number, row in (place[key] for key in keys)]
        self._order = np.array(order).reshape(len(bank.queries), len(bank.authors))

    def scores(self, wishes: torch.Tensor) -> Scores:
        """(U, Q, M) float32 scores for ``wishes`` (U, D), as `LateReader.wish` makes them; NaN: too long to be read.

        Of one query they say which response this user prefers; a difference of two is the log-odds.
        """
        wanted = wishes.reshape(-1, self.size).float().T.contiguous()
        found = [torch.from_numpy(shard[:]).float() @ wanted for shard in self._shards]
        return np.ascontiguousarray(torch.cat(found).numpy()[self._order].transpose(2, 0, 1))

    def vectors(self) -> Iterator[Halves]:
        """The shards one after the other, (rows, D)."""
        yield from self._shards

    @property
    def bytes(self) -> int:
        """Of all vectors."""
        return sum(shard.nbytes for shard in self._shards)


def open_index(reader: LateReader, bank: Bank, folder: Path, *, model_digest: str, progress: bool) -> BankIndex:
    """The index of ``bank`` under ``folder``, made where it is missing; what is there serves other banks too."""
    home = folder / f"index-{index_digest(reader, model_digest)}"
    shards = {key: shard for shard in _read_shards(home, reader.size) for key in shard.keys}
    missing = _missing(bank, shards)
    for keys, conversations in track(missing, "index, in shards", disable=not (progress and missing)):
        shard = _write_shard(home, keys, reader.responses(conversations).half().numpy())
        shards.update(dict.fromkeys(keys, shard))
    return BankIndex(bank, list(dict.fromkeys(shards.values())), reader.size)


def index_digest(reader: LateReader, model_digest: str) -> str:
    """Of weights, template and precision: vectors of two models never mix."""
    facts = [FORMAT, model_digest, reader.encoder.digest, reader.precision, reader.size]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def _keys_of(bank: Bank) -> Iterator[str]:
    """Of every response, query by query, in the order of the bank's LLMs."""
    for query in bank.queries:
        yield from (text_key(query.prompt, bank.responses[author][query.id]) for author in bank.authors)


def text_key(prompt: Sequence[Message], response: str) -> str:
    """32 hex digits of a conversation; names and ids do not count."""
    turns = [[turn.role, turn.content] for turn in prompt]
    return hashlib.sha256(json.dumps([turns, response]).encode()).hexdigest()[:32]


def _missing(bank: Bank, known: Collection[str]) -> list[tuple[tuple[str, ...], list[Conversation]]]:
    """Shards to be made: keys and conversations of what is not there, some queries each."""
    shards: list[tuple[tuple[str, ...], list[Conversation]]] = []
    for start in range(0, len(bank.queries), SHARD_QUERIES):
        fresh: dict[str, Conversation] = {}
        for query in bank.queries[start : start + SHARD_QUERIES]:
            for author in bank.authors:
                response = bank.responses[author][query.id]
                key = text_key(query.prompt, response)
                if key not in known:
                    fresh[key] = (query.prompt, (Message("assistant", response),))
        if fresh:
            shards.append((tuple(fresh), list(fresh.values())))
    return shards


def _write_shard(home: Path, keys: tuple[str, ...], vectors: Halves) -> _Shard:
    """The file first, then its marker."""
    name = hashlib.sha256(json.dumps(keys).encode()).hexdigest()[:24]
    path = home / f"{name}.npy"
    with drafted(path) as draft, draft.open("wb") as file:
        np.save(file, vectors, allow_pickle=False)
    marker = {"format": FORMAT, "sha256": sha256(path), "keys": keys}
    replace_file(path.with_suffix(".json"), json.dumps(marker))
    return _Shard(path, keys)


def _read_shards(home: Path, size: int) -> Iterator[_Shard]:
    """The shards that are whole; a line in the log names those that are not, which are made again."""
    for marker in sorted(home.glob("*.json")):
        try:
            yield _checked(marker, size)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            log.warning("index: %s is damaged and is made again (%s)", marker.with_suffix(".npy"), error)


def _checked(marker: Path, size: int) -> _Shard:
    told = json.loads(marker.read_text(encoding="utf-8"))
    keys, path = tuple(told["keys"]), marker.with_suffix(".npy")
    if told["format"] != FORMAT or marker.stem != hashlib.sha256(json.dumps(keys).encode()).hexdigest()[:24]:
        raise ValueError("its marker was changed")
    if sha256(path) != told["sha256"]:
        raise ValueError("its bytes were changed")
    shape = np.load(path, mmap_mode="r", allow_pickle=False).shape
    if shape != (len(keys), size):
        raise ValueError(f"it has the shape {shape}, expected {(len(keys), size)}")
    return _Shard(path, keys)
