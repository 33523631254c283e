"""Where a bank's states are kept. In: passes and budgets. Out: the states of a pass, kept or new."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch

from crm.leaderboard.state_files import make_room, read_states, write_states
from crm.model.attention.earlier import Earlier

log = logging.getLogger(__name__)
GB = 10**9
Place = Literal["memory", "disk", "nowhere"]
_WORDS: dict[Place, str] = {
    "memory": "kept in memory",
    "disk": "kept on disk",
    "nowhere": "not kept, read anew for every user",
}


class KeptStates:
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
        self._held: dict[int, Earlier] = {}
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

    def get(self, index: int, shape: tuple[int, ...], dtype: torch.dtype, make: Callable[[], Earlier]) -> Earlier:
        """The states of a pass that has a place; made, and put there, if they are not there yet."""
        if index in self._held:
            return self._held[index]
        earlier = read_states(self._paths[index], shape, dtype) if self.places[index] == "disk" else None
        if earlier is None:
            earlier = make()
            if self.places[index] == "disk":
                earlier = self._written(index, earlier)
        if self.places[index] != "nowhere":
            self._held[index] = earlier
        return earlier

    def _written(self, index: int, earlier: Earlier) -> Earlier:
        """The same from its file, so that the memory it took is free; itself where it cannot be written."""
        try:
            write_states(self._paths[index], earlier)
        except OSError as error:
            log.warning("%s: not kept (%s)", self._paths[index], error)
            self.places[index] = "nowhere"
            return earlier
        return read_states(self._paths[index], tuple(earlier.keys.shape), earlier.keys.dtype) or earlier


def rows_of(earlier: Earlier, rows: Sequence[int], hidden: int) -> Earlier:
    """Some texts of a pass, the last ``hidden`` tokens of each left out of sight."""
    if list(rows) != list(range(len(earlier.lengths))):
        index = torch.tensor(list(rows), device=earlier.keys.device)
        keys, values = earlier.keys.index_select(1, index), earlier.values.index_select(1, index)
        earlier = Earlier(keys, values, earlier.lengths[index.to(earlier.lengths.device)])
    return replace(earlier, lengths=earlier.lengths - hidden)


def name_of(texts: Sequence[Sequence[int]], *facts: str) -> str:
    """32 hex digits of what states depend on: facts of the model, and every token of a pass."""
    digest = hashlib.sha256("|".join(facts).encode())
    for text in texts:
        digest.update(f"|{','.join(map(str, text))}".encode())
    return digest.hexdigest()[:32]
