"""Which tokens of a forest see which, and the attention calls that read it, on a CPU and on a GPU.

A token sees the tokens of its node's path up to itself. On a CPU many short calls cost more than the work in them, so
spans of nodes of similar size are padded to one call; on a GPU one call with variable lengths reads them all.
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
"""Most keys that a group of several spans gathers at once."""


@dataclass(frozen=True, slots=True)
class QuerySpan:
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
    """G spans as one call, padded to Q queries and K keys; what stands in for missing ones is the row's first."""

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
    """Spans as sequences of one call, in which the last query of a sequence sees all its keys."""

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
    """Spans as groups."""

    groups: tuple[Group, ...]
    back: Tensor
    """(queries,) int64: where in the groups' answers, laid end to end, each query's is"""


@dataclass(frozen=True)
class TreeMask:
    """All queries of a pass, in the order of the row."""

    spans: tuple[QuerySpan, ...]
    varlen: Varlen | None = None
    """Where the row is on another device than the CPU"""

    @cached_property
    def calls(self) -> Calls:
        """Made when they are first asked for: a GPU has no use for them."""
        return grouped(self.spans)

    def to(self, device: torch.device | str) -> TreeMask:
        """For a row on another device."""
        return self if torch.device(device).type == "cpu" else TreeMask(self.spans, varlen(self.spans).to(device))


def full_mask(forest: Forest) -> TreeMask:
    """Every token reads."""
    return TreeMask(_spans(forest, [np.arange(node.length) for node in forest.nodes]))


def read_mask(forest: Forest, read_tokens: Sequence[int]) -> TreeMask:
    """Only ``read_tokens`` (ascending) read."""
    tokens = np.asarray(read_tokens, dtype=np.int64)
    ends = np.searchsorted(tokens, [0, *(node.start + node.length for node in forest.nodes)])
    return TreeMask(_spans(forest, [tokens[ends[i] : ends[i + 1]] - node.start for i, node in enumerate(forest.nodes)]))


def _spans(forest: Forest, own: Sequence[Index]) -> tuple[QuerySpan, ...]:
    """A span of each node of which ``own`` names tokens, counted from its first."""
    path: list[Index] = []
    found = []
    for node, inside in zip(forest.nodes, own, strict=True):
        tokens = np.arange(node.start, node.start + node.length)
        path.append(np.concatenate([path[node.path[-2]], tokens]) if node.depth else tokens)
        if len(inside):
            found.append(QuerySpan(path[-1], inside + node.depth + 1))
    return tuple(found)


def grouped(spans: Sequence[QuerySpan]) -> Calls:
    """A call for every group of spans of similar size."""
    first = np.cumsum([0, *(len(span.seen) for span in spans)])
    back = np.empty(first[-1], dtype=np.int64)
    groups, laid = [], 0
    for chosen in _alike(spans):
        group = _group([spans[index] for index in chosen], [int(first[index]) for index in chosen])
        for place, index in enumerate(chosen):
            start = laid + place * group.shape[1]
            back[first[index] : first[index + 1]] = np.arange(start, start + len(spans[index].seen))
        laid += group.shape[0] * group.shape[1]
        groups.append(group)
    return Calls(tuple(groups), torch.from_numpy(back))


def _alike(spans: Sequence[QuerySpan]) -> list[list[int]]:
    """Indices in groups of similar size: one that joins adds no more pairs in vain than `CALL`; see `GATHERED`."""
    sizes = [(span.is_root, len(span.keys), len(span.seen)) for span in spans]
    groups: list[list[int]] = []
    most = (False, 0, 0)
    for index in sorted(range(len(spans)), key=sizes.__getitem__, reverse=True):
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


def _group(spans: Sequence[QuerySpan], first: Sequence[int]) -> Group:
    """``first[i]`` is the first query of span i."""
    shape = len(spans), max(len(span.seen) for span in spans), max(len(row.keys) for row in spans)
    queries, keys = np.zeros(shape[:2], dtype=np.int64), np.zeros((shape[0], shape[2]), dtype=np.int64)
    seen = np.ones(shape[:2], dtype=np.int64)
    for place, (span, start) in enumerate(zip(spans, first, strict=True)):
        count = len(span.seen)
        queries[place, :count] = np.arange(start, start + count)
        keys[place, : len(span.keys)] = span.keys
        seen[place, :count] = span.seen
    mask = None
    if not spans[0].is_root:
        hidden = torch.arange(shape[2]) >= torch.from_numpy(seen)[:, None, :, None]
        mask = torch.zeros(hidden.shape).masked_fill_(hidden, -math.inf)
    return Group(torch.from_numpy(queries.ravel()), torch.from_numpy(keys.ravel()), shape, mask)


def varlen(spans: Sequence[QuerySpan]) -> Varlen:
    """A sequence a span whose queries end its keys without a gap, otherwise one a query."""
    keys: list[Index] = []
    counts = []
    for span in spans:
        count = len(span.seen)
        if span.seen[0] + count - 1 == len(span.keys):
            keys.append(span.keys)
            counts.append(count)
        else:
            keys += [span.keys[:seen] for seen in span.seen]
            counts += [1] * count
    lengths = [len(index) for index in keys]
    joined = torch.from_numpy(np.concatenate(keys))
    return Varlen(joined, _starts(counts), _starts(lengths), (max(counts), max(lengths)))


def _starts(counts: Sequence[int]) -> Tensor:
    return torch.tensor([0, *counts]).cumsum(0).to(torch.int32)
