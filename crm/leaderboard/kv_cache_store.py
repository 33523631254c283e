"""Where a bank's states are kept. In: passes and budgets. Out: the states of a pass, kept or new."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch

from crm.leaderboard.kv_cache_files import make_room, read_cache, write_cache
from crm.model.attention.kv_cache import KVCache

log = logging.getLogger(__name__)
GB = 10**9
Place = Literal["memory", "disk", "nowhere"]
_WORDS: dict[Place, str] = {
    "memory": "kept in memory",
    "disk": "kept on disk",
    "nowhere": "not kept, read anew for every user",
}


class KVCacheStore:
    """States of passes, of which ``sizes[p]`` bytes are expected of pass p: memory is filled first, then the disk.

    ``names[p]`` is a digest of all that its content depends on. ``memory_gb`` is of the model's device; ``disk_gb``
    bounds all files of states in ``folder``, where those of other banks and models give way, the longest unused first.
    What fits nowhere is made anew whenever it is asked for.
    """

    def __init__(
        self, names: Sequence[str], sizes: Sequence[int], *, memory_gb: float, disk_gb: float, folder: Path | None
    ) -> None:
        self.places: list[Place] = []
        self._sizes = sizes
        self._held: dict[int, KVCache] = {}
        left = {"memory": memory_gb * GB, "disk": disk_gb * GB if folder else 0.0}
        for size in sizes:
            place: Place = "memory" if size <= left["memory"] else "disk" if size <= left["disk"] else "nowhere"
            self.places.append(place)
            if place != "nowhere":
                left[place] -= size
        self._paths = [(folder or Path()) / f"states-{name}.safetensors" for name in names]
        if folder and self.bytes("disk"):
            wanted = [path for path, place in zip(self._paths, self.places, strict=True) if place == "disk"]
            make_room(folder, wanted, self.bytes("disk"), int(disk_gb * GB))
        log.info("states of the bank's conversations: %s", self.describe())

    def bytes(self, place: Place) -> int:
        """Bytes that have this place."""
        return sum(size for size, found in zip(self._sizes, self.places, strict=True) if found == place)

    def describe(self) -> str:
        """Where they are, in one line."""
        parts = [f"{self.bytes(place) / 1e6:.0f} MB {words}" for place, words in _WORDS.items() if self.bytes(place)]
        return ", ".join(parts) or "none"

    def get(self, index: int, shape: tuple[int, ...], dtype: torch.dtype, make: Callable[[], KVCache]) -> KVCache:
        """The states of a pass that has a place; made, and put there, if they are not there yet."""
        if index in self._held:
            return self._held[index]
        cache = read_cache(self._paths[index], shape, dtype) if self.places[index] == "disk" else None
        if cache is None:
            cache = make()
            if self.places[index] == "disk":
                cache = self._written(index, cache)
        if self.places[index] != "nowhere":
            self._held[index] = cache
        return cache

    def _written(self, index: int, cache: KVCache) -> KVCache:
        """The same from its file, so that the memory it took is free; itself where it cannot be written."""
        try:
            write_cache(self._paths[index], cache)
        except OSError as error:
            log.warning("%s: not kept (%s)", self._paths[index], error)
            self.places[index] = "nowhere"
            return cache
        return read_cache(self._paths[index], tuple(cache.keys.shape), cache.keys.dtype) or cache


def rows_of(cache: KVCache, rows: Sequence[int], hidden: int) -> KVCache:
    """Some texts of a pass, the last ``hidden`` tokens of each left out of sight."""
    if list(rows) != list(range(len(cache.lengths))):
        index = torch.tensor(list(rows), device=cache.keys.device)
        keys, values = cache.keys.index_select(1, index), cache.values.index_select(1, index)
        cache = KVCache(keys, values, cache.lengths[index.to(cache.lengths.device)])
    return replace(cache, lengths=cache.lengths - hidden)


def name_of(texts: Sequence[Sequence[int]], *facts: str) -> str:
    """32 hex digits of what states depend on: facts of the model, and every token of a pass."""
    digest = hashlib.sha256("|".join(facts).encode())
    for text in texts:
        digest.update(f"|{','.join(map(str, text))}".encode())
    return digest.hexdigest()[:32]
