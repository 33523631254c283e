"""Packed batches. In: encoded comparisons. Out: one row of tokens without padding, and who may see whom in it.

Letters: B comparisons, N tokens of the row, R distinct tokens at which the head reads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from crm.data.encoding import EncodedComparison, token_ids
from crm.data.forest import Forest, grow_forest


@dataclass(frozen=True, slots=True)
class Reading:
    """Query tokens of one node, and what they see: the tokens of the nodes on its path, up to their own position."""

    queries: int
    """Q, how many tokens read, 1 or more"""
    path: tuple[int, ...]
    """Nodes whose K tokens together are the keys"""
    mask: Tensor | None
    """(Q, K) float32, 0 where a query sees a key, else -inf; None where each sees the keys up to the last but as many
    as queries follow it (Q = K, or 1)"""


@dataclass(frozen=True, slots=True)
class Sight:
    """Who sees whom: ``readings`` in the order of their queries, over keys cut into the nodes' ``lengths``."""

    lengths: tuple[int, ...]
    """Tokens of each node, N in all"""
    readings: tuple[Reading, ...]
    key_index: Tensor
    """(sum of K of all varlen sequences,) int64: the row's tokens gathered as keys, sequence after sequence"""
    cu_queries: Tensor
    """(sequences + 1,) int32: where each sequence's queries begin"""
    cu_keys: Tensor
    """(sequences + 1,) int32: where each sequence's keys begin"""
    longest: tuple[int, int]
    """Most queries and most keys of a sequence"""

    def to(self, device: torch.device | str) -> Sight:
        """The same on another device; masks stay where they are used, on the CPU."""
        moved = {name: getattr(self, name).to(device) for name in ("key_index", "cu_queries", "cu_keys")}
        return replace(self, **moved)


@dataclass
class ForestBatch:
    """One forward pass over a forest (`crm.data.forest`), for B comparisons."""

    input_ids: Tensor
    """(1, N) int64"""
    position_ids: Tensor
    """(1, N) int64, from 0 in every sequence"""
    read_tokens: Tensor
    """(R,) int64, ascending: tokens at which the head reads"""
    reads: Tensor
    """(B, 2) int64 in [0, R): which of these for the response shown first and for the one shown second"""
    target: Tensor
    """(B,) float32 in {0, 1/2, 1}: probability that the response shown first is preferred"""
    sign: Tensor
    """(B,) float32: +1 where response A of the record stands first, -1 where B does"""
    sight: Sight
    """For all N tokens"""
    read_sight: Sight
    """For the R read tokens alone"""
    pairs: int
    """(query, key) pairs of tokens that attention reads"""
    weight: float = 1.0
    """Factor of this batch's mean loss, so that every comparison of an optimizer step counts the same"""

    def to(self, device: torch.device | str) -> ForestBatch:
        """The same batch on another device."""
        parts: dict[str, Any] = dict(vars(self))
        return ForestBatch(**{name: part.to(device) if hasattr(part, "to") else part for name, part in parts.items()})

    def __len__(self) -> int:
        return int(self.target.shape[0])

    @property
    def tokens(self) -> int:
        """Tokens computed."""
        return int(self.input_ids.shape[1])


def collate_forest(encoded: Sequence[EncodedComparison], *, share: bool, weight: float = 1.0) -> ForestBatch:
    """Lay comparisons out in one row; ``share`` makes common beginnings one node, else only equal sequences are."""
    flat = [list(map(token_ids, item.sequences)) for item in encoded]
    first = [0]
    for sequences in flat:
        first.append(first[-1] + len(sequences))
    forest = grow_forest([sequence for sequences in flat for sequence in sequences], share=share)
    places = [
        [forest.locate(start + sequence, position) for sequence, position in item.reads]
        for item, start in zip(encoded, first, strict=False)
    ]
    read_tokens = sorted({place for pair in places for place in pair})
    rank = {place: index for index, place in enumerate(read_tokens)}
    return ForestBatch(
        torch.tensor([forest.ids]),
        torch.tensor([forest.positions]),
        torch.tensor(read_tokens),
        torch.tensor([[rank[place] for place in pair] for pair in places]),
        torch.tensor([item.target for item in encoded], dtype=torch.float32),
        torch.tensor([1.0 if item.order == "ab" else -1.0 for item in encoded]),
        full_sight(forest),
        read_sight(forest, read_tokens),
        sum(node.length * node.depth + node.length * (node.length + 1) // 2 for node in forest.nodes),
        weight,
    )


def full_sight(forest: Forest) -> Sight:
    """Every token reads; one varlen sequence a node."""
    readings, keys = [], []
    for node in forest.nodes:
        total = node.depth + node.length
        below_root = node.length not in (1, total)
        mask = torch.full((node.length, total), -math.inf).triu(node.depth + 1) if below_root else None
        readings.append(Reading(node.length, node.path, mask))
        keys.append(_tokens_of(forest, node.path))
    return _sight(forest, readings, keys, [node.length for node in forest.nodes])


def read_sight(forest: Forest, read_tokens: Sequence[int]) -> Sight:
    """Only ``read_tokens`` (ascending) read; one varlen sequence a token, since they may stand anywhere in a node."""
    readings, keys = [], []
    for node in forest.nodes:
        own = [token for token in read_tokens if node.start <= token < node.start + node.length]
        if not own:
            continue
        seen = [node.depth + token - node.start + 1 for token in own]
        total = node.depth + node.length
        hidden = torch.arange(total) >= torch.tensor(seen)[:, None]
        mask = None if seen == [total] else torch.zeros(hidden.shape).masked_fill(hidden, -math.inf)
        readings.append(Reading(len(own), node.path, mask))
        keys += [_tokens_of(forest, node.path)[:count] for count in seen]
    return _sight(forest, readings, keys, [1] * len(read_tokens))


def _tokens_of(forest: Forest, path: Sequence[int]) -> Tensor:
    nodes = [forest.nodes[index] for index in path]
    return torch.cat([torch.arange(node.start, node.start + node.length) for node in nodes])


def _sight(forest: Forest, readings: list[Reading], keys: list[Tensor], queries: list[int]) -> Sight:
    counts = [len(index) for index in keys]
    return Sight(
        tuple(node.length for node in forest.nodes),
        tuple(readings),
        torch.cat(keys),
        _starts(queries),
        _starts(counts),
        (max(queries), max(counts)),
    )


def _starts(counts: Sequence[int]) -> Tensor:
    return torch.tensor([0, *counts]).cumsum(0).to(torch.int32)
