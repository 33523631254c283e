"""Keys and values of texts that were read before. In: heads of tokens that follow. Out: what those gather from both.

A decoder reads from left to right, so what it made of a text serves every continuation of it.
Letters: G texts, L tokens of the longest, C tokens that follow each text, Q of these that read, D size of a head.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softmax

LayerCaches = list[tuple[Tensor, Tensor]]
"""Rotated keys and values, each (G, key heads, L, D), layer after layer: what a pass over texts leaves behind."""


@dataclass(frozen=True, slots=True)
class KVCache:
    """What G texts, padded on the right, left behind; never written to."""

    keys: Tensor
    """(layers, G, key heads, L, D)"""
    values: Tensor
    """(layers, G, key heads, L, D)"""
    lengths: Tensor
    """(G,) int64, tokens of each text that may be seen; those after them are hidden"""

    def to(self, device: torch.device) -> KVCache:
        """The same on another device."""
        return KVCache(self.keys.to(device), self.values.to(device), self.lengths.to(device))

    def attend(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, positions: Tensor, scaling: float | None
    ) -> Tensor:
        """(G, Q, heads, D): what ``query`` (G, heads, Q, D) gathers from the text and from the C tokens that follow.

        ``key`` and ``value`` (G, key heads, C, D) are those of the C tokens; ``positions`` (G or 1, Q) say which of
        them reads, and each sees the C tokens up to its own. The kept tensors are not joined with the new ones: the
        logits are.
        """
        texts, heads, reads, size = query.shape
        groups = heads // key.shape[1]  # heads that share a key head are read as further positions of it
        rows = query.reshape(texts, -1, groups * reads, size)
        kept_keys, kept_values = self.keys[layer].to(key.dtype), self.values[layer].to(value.dtype)
        before = (rows @ kept_keys.transpose(-1, -2)).float()
        after = (rows @ key.transpose(-1, -2)).float()
        hidden = torch.arange(kept_keys.shape[2], device=key.device) >= self.lengths[:, None, None, None]
        follows = torch.arange(key.shape[2], device=key.device) > positions[:, None, :, None]
        before.masked_fill_(hidden, float("-inf"))
        after.masked_fill_(follows.repeat(1, 1, groups, 1), float("-inf"))
        logits = torch.cat([before, after], dim=-1).mul_(size**-0.5 if scaling is None else scaling)
        weights = softmax(logits, dim=-1).to(value.dtype)
        width = kept_keys.shape[2]
        gathered: Tensor = weights[..., :width] @ kept_values + weights[..., width:] @ value
        return gathered.reshape(texts, heads, reads, size).transpose(1, 2)
