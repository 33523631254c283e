"""States of tokens, kept. In: runs of token ids and their states. Out: those states again, found by the tokens before.

What a layer that is not trained gives for a token depends on that token and those before it alone. So tokens form a
tree, every token under the one before it, and each place in the tree has one state, wherever a batch cuts its runs:
a beginning that many sequences share is kept once.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from crm.model.batching.forest import Node

BLOCK = 16_384
"""Tokens by which room is made: memory is taken as it is needed."""
INDEX_BYTES = 160
"""A token's entry in the tree: two integers and its place in a dictionary (measured)."""
ROOT, UNKNOWN = 0, -1


class FrozenStates:
    """Room for the states (H,) of as many tokens as fit ``budget`` bytes; nothing is ever given up for another.

    ``dtype`` float32 gives back what was put in; bfloat16 takes half of the room and keeps 8 significant bits.
    """

    def __init__(self, width: int, *, budget: int, dtype: torch.dtype = torch.float32) -> None:
        self.width, self.dtype = width, dtype
        self.token_bytes = width * dtype.itemsize + INDEX_BYTES
        self.room = budget // self.token_bytes
        self._slot_below: dict[int, int] = {}  # by `_key`; slots count from 1
        self._blocks: list[Tensor] = []

    def __len__(self) -> int:
        return len(self._slot_below)

    def find(self, ids: Sequence[int], nodes: Sequence[Node]) -> list[int]:
        """Slot of each of the N ``ids`` laid out in ``nodes``, a parent before its children; -1 where none is kept."""
        slots = [UNKNOWN] * len(ids)
        for node in nodes:
            slot = self._slot_above(node, nodes, slots)
            for token in range(node.start, node.start + node.length):
                if slot == UNKNOWN:
                    break
                slot = slots[token] = self._slot_below.get(_key(slot, ids[token]), UNKNOWN)
        return slots

    def add(self, ids: Sequence[int], nodes: Sequence[Node], states: Tensor) -> int:
        """Keep ``states`` (N, H) of tokens as `find` takes them; returns how many found no room."""
        slots, fresh = [UNKNOWN] * len(ids), []
        for node in nodes:
            slot = self._slot_above(node, nodes, slots)
            for token in range(node.start, node.start + node.length):
                if slot == UNKNOWN:
                    break
                key = _key(slot, ids[token])
                if key not in self._slot_below:
                    if not self._has_room():
                        break
                    self._slot_below[key] = len(self._slot_below) + 1
                    fresh.append(token)
                slot = slots[token] = self._slot_below[key]
        if fresh:
            self._write(torch.tensor([slots[token] for token in fresh]), states[fresh])
        return slots.count(UNKNOWN)

    def read(self, slots: Tensor) -> Tensor:
        """(M, H) float32 on the CPU: the states of M ``slots``, none of them -1."""
        states = torch.empty(len(slots), self.width)
        for block, here, rows in self._places(slots):
            states[here] = block[rows].float()
        return states

    def _slot_above(self, node: Node, nodes: Sequence[Node], slots: Sequence[int]) -> int:
        if len(node.path) == 1:
            return ROOT
        parent = nodes[node.path[-2]]
        return slots[parent.start + parent.length - 1]

    def _write(self, slots: Tensor, states: Tensor) -> None:
        states = states.to("cpu", self.dtype)
        for block, here, rows in self._places(slots):
            block[rows] = states[here]

    def _places(self, slots: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
        """For each block: itself, which of ``slots`` lie in it, and in which of its rows."""
        numbers = torch.div(slots - 1, BLOCK, rounding_mode="floor")
        found = []
        for number in sorted(set(numbers.tolist())):
            here = (numbers == number).nonzero().squeeze(1)
            found.append((self._blocks[number], here, slots[here] - 1 - number * BLOCK))
        return found

    def _has_room(self) -> bool:
        """Whether one more state fits; makes the block that it goes into. Full memory ends the room there."""
        if len(self) < min(self.room, len(self._blocks) * BLOCK):
            return True
        if len(self) >= self.room:
            return False
        try:
            with torch.inference_mode(False):  # a tensor made in a validation must be writable in training
                self._blocks.append(torch.empty(BLOCK, self.width, dtype=self.dtype))
        except (MemoryError, RuntimeError):  # torch says RuntimeError where memory ends
            self.room = len(self)
            return False
        return True


def _key(slot: int, token_id: int) -> int:
    """The token before, by its slot, and the token: one number, since a pair takes 60 bytes more."""
    return slot << 32 | token_id
