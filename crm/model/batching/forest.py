"""Sequences that share beginnings as one forest of tokens, and its attention mask."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

MIN_SHARED = 8
"""Tokens that must be common beyond what is shared already: a shorter run costs more as a node than it saves."""


@dataclass(frozen=True, slots=True)
class Node:
    """A run of tokens that one or more sequences have in common."""

    start: int
    """Its first token in the row."""
    length: int
    """Tokens, 1 or more."""
    depth: int
    """Tokens of all its ancestors: the position of its first token."""
    path: tuple[int, ...]
    """Indices of its ancestors from the root down, and its own."""


@dataclass(frozen=True, slots=True)
class Forest:
    """One row of N tokens. ``leaf_of[i]`` is the node in which sequence i ends."""

    ids: list[int]
    """(N,) token ids."""
    positions: list[int]
    """(N,) position of each token in the sequences that it belongs to."""
    nodes: list[Node]
    """In the order of the row; a parent before its children."""
    leaf_of: list[int]

    def places(self, leaf: int, start: int, end: int) -> tuple[int, ...]:
        """Where in the row the tokens at the positions ``start`` to ``end`` (exclusive) of a leaf's sequence lie."""
        found: list[int] = []
        for node in (self.nodes[index] for index in self.nodes[leaf].path):
            low, high = max(start, node.depth), min(end, node.depth + node.length)
            found.extend(range(node.start + low - node.depth, node.start + high - node.depth))
        return tuple(found)


def common_prefix(first: Sequence[int], second: Sequence[int]) -> int:
    """Tokens that two sequences begin with in common."""
    for index, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return index
    return min(len(first), len(second))


def unique_tokens(sequences: Sequence[tuple[int, ...]]) -> int:
    """Tokens of a forest that shares all that can be shared: the work there is, however it is batched."""
    ordered = sorted(set(sequences))
    return sum(map(len, ordered)) - sum(common_prefix(*pair) for pair in pairwise(ordered))


def grow_forest(sequences: Sequence[tuple[int, ...]]) -> Forest:
    """Lay out sequences of one token or more; equal ones once.

    [5, 6, 7, 8] and [5, 6, 7, 9, 9], shared from one token on, give the row 5 6 7 8 9 9 with three nodes, of 3, 1 and 2
    tokens, at the positions 0 1 2 3 3 4.
    """
    ordered = sorted(set(sequences))
    # What each has in common with the one before it; in a sorted run the least of these is what all have in common.
    near = [0, *(common_prefix(*pair) for pair in pairwise(ordered))]
    forest = Forest([], [], [], [])
    leaf: dict[tuple[int, ...], int] = {}

    def grow(low: int, high: int, path: tuple[int, ...]) -> None:
        """Add what ``ordered[low:high]``, alike as far as ``path`` reaches, have below it."""
        depth = forest.nodes[path[-1]].depth + forest.nodes[path[-1]].length if path else 0
        if path and len(ordered[low]) == depth:  # the shortest sorts first: it ends with the parent
            leaf[ordered[low]] = path[-1]
            low += 1
        while low < high:
            end = low + 1
            while end < high and near[end] >= depth + MIN_SHARED:
                end += 1
            reach = min([len(ordered[low]), *near[low + 1 : end]])
            index = len(forest.nodes)
            forest.nodes.append(Node(len(forest.ids), reach - depth, depth, (*path, index)))
            forest.ids.extend(ordered[low][depth:reach])
            forest.positions.extend(range(depth, reach))
            grow(low, end, (*path, index))
            low = end

    grow(0, len(ordered), ())
    forest.leaf_of.extend(leaf[sequence] for sequence in sequences)
    return forest


def fill_up(forest: Forest, multiple: int) -> None:
    """Lengthen the row to a ``multiple`` of tokens by one more tree, of ids 0, that belongs to no sequence."""
    start = len(forest.ids)
    missing = -start % multiple
    if missing:
        forest.nodes.append(Node(start, missing, 0, (len(forest.nodes),)))
        forest.ids.extend([0] * missing)
        forest.positions.extend(range(missing))


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


@dataclass(frozen=True)
class TreeMask:
    """All queries of a pass, in the order of the row."""

    spans: tuple[QuerySpan, ...]
    varlen: Varlen | None = None
    """Where the row is on another device than the CPU"""

    @cached_property
    def calls(self) -> tuple[list[Group], Tensor]:
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


def grouped(spans: Sequence[QuerySpan]) -> tuple[list[Group], Tensor]:
    """A call for every group of spans of similar size, and where in their answers, laid end to end, each query's is."""
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
    return groups, torch.from_numpy(back)


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
