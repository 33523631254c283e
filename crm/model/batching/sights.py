"""Who sees whom in a packed row. In: a forest. Out: the attention calls that read it, on a CPU and on a GPU.

A token sees the tokens of its node's path up to itself. On a CPU many short calls cost more than the work in them, so
readings of nodes of similar size are padded to one call; on a GPU one call with variable lengths reads them all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from crm.model.batching.forest import Forest

Index = NDArray[np.int64]
CALL = 2048
"""Pairs of a query and a key that may be read in vain where that saves a call: about what a call costs on a CPU (80 to
94 microseconds with its backward; a pair 28 to 121 nanoseconds for 4 heads of 32 to 9 of 64)."""
GATHERED = 65_536
"""Most keys that a group of several readings gathers at once."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Queries that follow each other in the row, and what they see: the tokens of a path, each up to its own."""

    keys: Index
    """(K,) tokens of the row"""
    seen: Index
    """(Q,) in [1, K], ascending: how many of the keys each query sees"""

    @property
    def is_root(self) -> bool:
        """Whether all tokens of a node without ancestors read."""
        return len(self.seen) == len(self.keys)


@dataclass(frozen=True, slots=True)
class Group:
    """G readings as one call, padded to Q queries and K keys; what stands in for missing ones is the row's first."""

    queries: Tensor
    """(G * Q,) int64: which queries"""
    keys: Tensor
    """(G * K,) int64: which tokens of the row"""
    shape: tuple[int, int, int]
    """G, Q, K"""
    mask: Tensor | None
    """(G, 1, Q, K) float32, 0 where a query sees a key, else -inf; None where all are roots: query i sees keys to i"""


@dataclass(frozen=True, slots=True)
class Varlen:
    """Readings as sequences of one call, in which the last query of a sequence sees all its keys."""

    keys: Tensor
    """(sum of keys,) int64: tokens of the row, sequence after sequence"""
    cu_queries: Tensor
    """(sequences + 1,) int32: where each sequence's queries begin"""
    cu_keys: Tensor
    """(sequences + 1,) int32: where each sequence's keys begin"""
    longest: tuple[int, int]
    """Most queries and most keys of a sequence"""

    def to(self, device: torch.device | str) -> Varlen:
        """The same on another device."""
        moved = {name: getattr(self, name).to(device) for name in ("keys", "cu_queries", "cu_keys")}
        return replace(self, **moved)


@dataclass(frozen=True, slots=True)
class Calls:
    """Readings as groups."""

    groups: tuple[Group, ...]
    back: Tensor
    """(queries,) int64: where in the groups' answers, laid end to end, each query's is"""


@dataclass(frozen=True)
class Sight:
    """All queries of a pass, in the order of the row."""

    readings: tuple[Reading, ...]
    varlen: Varlen | None = None
    """Where the row is on another device than the CPU"""

    @cached_property
    def calls(self) -> Calls:
        """Made when they are first asked for: a GPU has no use for them."""
        return grouped(self.readings)

    def to(self, device: torch.device | str) -> Sight:
        """For a row on another device."""
        return self if torch.device(device).type == "cpu" else Sight(self.readings, varlen(self.readings).to(device))


def full_sight(forest: Forest) -> Sight:
    """Every token reads."""
    return Sight(_readings(forest, [np.arange(node.length) for node in forest.nodes]))


def read_sight(forest: Forest, read_tokens: Sequence[int]) -> Sight:
    """Only ``read_tokens`` (ascending) read."""
    tokens = np.asarray(read_tokens, dtype=np.int64)
    ends = np.searchsorted(tokens, [0, *(node.start + node.length for node in forest.nodes)])
    own = [tokens[low:high] - node.start for node, low, high in zip(forest.nodes, ends, ends[1:], strict=False)]
    return Sight(_readings(forest, own))


def _readings(forest: Forest, own: Sequence[Index]) -> tuple[Reading, ...]:
    """A reading of each node of which ``own`` names tokens, counted from its first."""
    path: list[Index] = []
    found = []
    for node, inside in zip(forest.nodes, own, strict=True):
        tokens = np.arange(node.start, node.start + node.length)
        path.append(np.concatenate([path[node.path[-2]], tokens]) if node.depth else tokens)
        if len(inside):
            found.append(Reading(path[-1], inside + node.depth + 1))
    return tuple(found)


def grouped(readings: Sequence[Reading]) -> Calls:
    """A call for every group of readings of similar size."""
    first = np.cumsum([0, *(len(reading.seen) for reading in readings)])
    back = np.empty(first[-1], dtype=np.int64)
    groups, laid = [], 0
    for chosen in _alike(readings):
        group = _group([readings[index] for index in chosen], [int(first[index]) for index in chosen])
        for place, index in enumerate(chosen):
            start = laid + place * group.shape[1]
            back[first[index] : first[index + 1]] = np.arange(start, start + len(readings[index].seen))
        laid += group.shape[0] * group.shape[1]
        groups.append(group)
    return Calls(tuple(groups), torch.from_numpy(back))


def _alike(readings: Sequence[Reading]) -> list[list[int]]:
    """Indices in groups of similar size: one that joins adds no more pairs in vain than `CALL`; see `GATHERED`."""
    sizes = [(reading.is_root, len(reading.keys), len(reading.seen)) for reading in readings]
    groups: list[list[int]] = []
    most = (False, 0, 0)
    for index in sorted(range(len(readings)), key=sizes.__getitem__, reverse=True):
        root, keys, queries = sizes[index]
        wider = max(most[2], queries)
        if groups and root == most[0]:
            count = len(groups[-1])
            added = ((count + 1) * wider - count * most[2]) * most[1] - keys * queries
            if added <= CALL and (count + 1) * most[1] <= GATHERED:
                groups[-1].append(index)
                most = (root, most[1], wider)
                continue
        groups.append([index])
        most = (root, keys, queries)
    return groups


def _group(readings: Sequence[Reading], first: Sequence[int]) -> Group:
    """``first[i]`` is the first query of reading i."""
    shape = len(readings), max(len(reading.seen) for reading in readings), max(len(row.keys) for row in readings)
    queries, keys = np.zeros(shape[:2], dtype=np.int64), np.zeros((shape[0], shape[2]), dtype=np.int64)
    seen = np.ones(shape[:2], dtype=np.int64)
    for place, (reading, start) in enumerate(zip(readings, first, strict=True)):
        count = len(reading.seen)
        queries[place, :count] = np.arange(start, start + count)
        keys[place, : len(reading.keys)] = reading.keys
        seen[place, :count] = reading.seen
    mask = None
    if not readings[0].is_root:
        hidden = torch.arange(shape[2]) >= torch.from_numpy(seen)[:, None, :, None]
        mask = torch.zeros(hidden.shape).masked_fill_(hidden, -math.inf)
    return Group(torch.from_numpy(queries.ravel()), torch.from_numpy(keys.ravel()), shape, mask)


def varlen(readings: Sequence[Reading]) -> Varlen:
    """A sequence a reading whose queries end its keys without a gap, otherwise one a query."""
    keys: list[Index] = []
    counts = []
    for reading in readings:
        count = len(reading.seen)
        if reading.seen[0] + count - 1 == len(reading.keys):
            keys.append(reading.keys)
            counts.append(count)
        else:
            keys += [reading.keys[:seen] for seen in reading.seen]
            counts += [1] * count
    lengths = [len(index) for index in keys]
    joined = torch.from_numpy(np.concatenate(keys))
    return Varlen(joined, _starts(counts), _starts(lengths), (max(counts), max(lengths)))


def _starts(counts: Sequence[int]) -> Tensor:
    return torch.tensor([0, *counts]).cumsum(0).to(torch.int32)
