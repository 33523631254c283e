"""The index of a bank: what every response leaves, read once for everybody. In: a late reader, a bank. Out: scores.

Vectors lie in shards, float16 and memory-mapped, each with a marker that is written last: it says whose they are (by
digests of the texts) and what the bytes were. A build that was killed goes on with the shards that are missing and
comes to the same files, to the bit. A new LLM adds shards of its own responses. A shard whose bytes differ from its
marker is made again; several processes may build at once: each writes whole files, and none is made where it is there.
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
from crm.io.processes import ALONE, Processes
from crm.leaderboard.bank.bank import Bank
from crm.model.late_reading import Conversation, LateReader
from crm.schema import Message

log = logging.getLogger(__name__)
FORMAT = 1
SHARD_QUERIES = 8
"""Queries of a shard: a minute of work at most on a slow machine, so that little is lost by a kill."""
ROWS_AT_ONCE = 256
"""Vectors in float32 at a time: a megabyte, which stays in the caches."""
HELD = 16_000_000
"""Bytes in float32 up to which an index is held in memory: many people at once then read no file."""
Halves = npt.NDArray[np.float16]
Scores = npt.NDArray[np.float32]
Work = tuple[tuple[str, ...], list[Conversation]]
"""Keys and conversations of a shard to be made."""


@dataclass(frozen=True, slots=True)
class _Shard:
    """Vectors (rows, D), memory-mapped, and the digests of their texts in their order."""

    keys: tuple[str, ...]
    vectors: Halves


class BankIndex:
    """The vectors of a bank's responses: (Q, M) of them, each of D numbers, where Q are its queries and M its LLMs."""

    def __init__(self, bank: Bank, shards: Sequence[_Shard], size: int) -> None:
        self.bank, self.size = bank, size
        keys = list(_keys_of(bank))
        place = {key: (number, row) for number, shard in enumerate(shards) for row, key in enumerate(shard.keys)}
        used = sorted({place[key][0] for key in keys})
        self._shards = [shards[number].vectors for number in used]
        starts = dict(zip(used, np.cumsum([0, *(len(shard) for shard in self._shards)]).tolist(), strict=False))
        order = [starts[number] + row for number, row in (place[key] for key in keys)]
        self._order = np.array(order).reshape(len(bank.queries), len(bank.authors))
        held = self._shards and 2 * self.bytes <= HELD
        self._whole = torch.from_numpy(np.concatenate(self._shards)).float() if held else None

    def scores(self, wishes: torch.Tensor) -> Scores:
        """(U, Q, M) float32 scores for ``wishes`` (U, D), each a `LateReader.user_vector`; NaN: too long to be read.

        Of one query they say which response this user prefers; a difference of two is the log-odds.
        """
        wanted = wishes.reshape(-1, self.size).float().T.contiguous()
        if self._whole is not None:
            return np.ascontiguousarray((self._whole @ wanted).numpy()[self._order].transpose(2, 0, 1))
        found = torch.empty(sum(len(shard) for shard in self._shards), wanted.shape[1])
        room = torch.empty(ROWS_AT_ONCE, self.size)
        row = 0
        for shard in self._shards:
            for start in range(0, len(shard), ROWS_AT_ONCE):
                part = torch.from_numpy(shard[start : start + ROWS_AT_ONCE])
                torch.mm(room[: len(part)].copy_(part), wanted, out=found[row : row + len(part)])
                row += len(part)
        return np.ascontiguousarray(found.numpy()[self._order].transpose(2, 0, 1))

    @property
    def bytes(self) -> int:
        """Of all vectors."""
        return sum(shard.nbytes for shard in self._shards)


def open_index(
    reader: LateReader, bank: Bank, folder: Path, *, model_digest: str, progress: bool, processes: Processes = ALONE
) -> BankIndex:
    """The index of ``bank`` under ``folder``, made where it is missing; what is there serves other banks too.

    Every byte that is there is compared with its marker. Of several ``processes`` each begins elsewhere, and all come
    to the whole.
    """
    home = folder / f"index-{index_digest(reader, model_digest)}"
    shards = {key: shard for shard in _read_shards(home, reader.size) for key in shard.keys}
    missing = _missing(bank, shards)
    log.info("index %s: %d vectors are there, %d shards are made now", home, len(shards), len(missing))
    first = processes.rank * len(missing) // processes.size
    turns = track(missing[first:] + missing[:first], "index, in shards", disable=not (progress and missing))
    for keys, conversations in turns:
        shard = _made_meanwhile(home, keys, reader.size) or _make_shard(home, keys, conversations, reader)
        shards.update(dict.fromkeys(keys, shard))
    return BankIndex(bank, list({id(shard): shard for shard in shards.values()}.values()), reader.size)


def index_digest(reader: LateReader, model_digest: str) -> str:
    """Of weights, template, limit and precision: vectors of two models never mix."""
    facts = [FORMAT, model_digest, reader.encoder.digest, reader.encoder.max_length, reader.precision, reader.size]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def text_key(prompt: Sequence[Message], response: str) -> str:
    """32 hex digits of a conversation; names and ids do not count."""
    turns = [[turn.role, turn.content] for turn in prompt]
    return hashlib.sha256(json.dumps([turns, response]).encode()).hexdigest()[:32]


def _keys_of(bank: Bank) -> Iterator[str]:
    """Of every response, query by query, in the order of the bank's LLMs."""
    for query in bank.queries:
        yield from (text_key(query.prompt, bank.responses[author][query.id]) for author in bank.authors)


def _missing(bank: Bank, known: Collection[str]) -> list[Work]:
    """Shards to be made, some queries each.

    A text that occurs twice belongs to the first shard, so that it does not matter which of them are there already.
    """
    shards: list[Work] = []
    seen: set[str] = set()
    for start in range(0, len(bank.queries), SHARD_QUERIES):
        fresh: dict[str, Conversation] = {}
        for query in bank.queries[start : start + SHARD_QUERIES]:
            for author in bank.authors:
                response = bank.responses[author][query.id]
                key = text_key(query.prompt, response)
                if key not in seen and key not in known:
                    fresh[key] = (query.prompt, (Message("assistant", response),))
                seen.add(key)
        if fresh:
            shards.append((tuple(fresh), list(fresh.values())))
    return shards


def _make_shard(home: Path, keys: tuple[str, ...], conversations: list[Conversation], reader: LateReader) -> _Shard:
    """The file first, then its marker."""
    vectors = reader.responses(conversations).half().numpy()
    if np.isinf(vectors).any():
        raise ValueError("checkpoint: its vectors are beyond float16's 65,504; it has diverged, take another one")
    path = home / f"{_name(keys)}.npy"
    with drafted(path) as draft, draft.open("wb") as file:
        np.save(file, vectors, allow_pickle=False)
    replace_file(path.with_suffix(".json"), _marker(keys, _digest(path)))
    return _Shard(keys, _mapped(path))


def _made_meanwhile(home: Path, keys: tuple[str, ...], size: int) -> _Shard | None:
    """The shard, where another process has made it since this one looked."""
    marker = home / f"{_name(keys)}.json"
    return _read_shard(marker, size) if marker.exists() else None


def _read_shards(home: Path, size: int) -> Iterator[_Shard]:
    """The shards that are whole; a line in the log names those that are not, which are made again."""
    for marker in sorted(home.glob("*.json")):
        shard = _read_shard(marker, size)
        if shard is not None:
            yield shard


def _read_shard(marker: Path, size: int) -> _Shard | None:
    try:
        return _checked(marker, size)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        log.warning("index: %s is damaged and is made again (%s)", marker.with_suffix(".npy"), error)
        marker.unlink(missing_ok=True)  # what is made again may be a part of another shard
        return None


def _checked(marker: Path, size: int) -> _Shard:
    text = marker.read_text(encoding="utf-8")
    told = json.loads(text)
    keys, path = tuple(told["keys"]), marker.with_suffix(".npy")
    if marker.stem != _name(keys) or text != _marker(keys, told["sha256"]):
        raise ValueError("its marker was changed")
    if _digest(path) != told["sha256"]:
        raise ValueError("its bytes were changed")
    vectors = _mapped(path)
    if vectors.shape != (len(keys), size) or vectors.dtype != np.float16:
        raise ValueError(f"it has {vectors.dtype} numbers of shape {vectors.shape}, expected {(len(keys), size)}")
    return _Shard(keys, vectors)


def _name(keys: tuple[str, ...]) -> str:
    return hashlib.sha256(json.dumps(keys).encode()).hexdigest()[:24]


def _marker(keys: tuple[str, ...], digest: str) -> str:
    return json.dumps({"format": FORMAT, "sha256": digest, "keys": keys})


def _digest(path: Path) -> str:
    """Of a file's bytes, through the pages that its vectors are read from later."""
    return hashlib.sha256(np.memmap(path, dtype=np.uint8, mode="r").data).hexdigest()


def _mapped(path: Path) -> Halves:
    """Of the file, without a copy. Nothing writes to it; torch takes no memory that must not be written to."""
    vectors: Halves = np.load(path, mmap_mode="c", allow_pickle=False)
    return vectors
