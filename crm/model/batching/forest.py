"""Token sequences that begin alike, laid out once as a forest of runs of tokens in one row.

Two sequences that begin with the same tokens have the same states there, since a decoder reads from left to right.
So a common beginning (criteria and query, say) becomes one node, and what differs hangs below it. A node's tokens see
the tokens of its ancestors and, causally, their own; their positions go on from the parent's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

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
    near = [0, *(common_prefix(*pair) for pair in pairwise(ordered))]
    forest = Forest([], [], [], [])
    leaf: dict[tuple[int, ...], int] = {}
    _grow(forest, ordered, near, leaf, 0, len(ordered), ())
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


def _grow(
    forest: Forest,
    ordered: list[tuple[int, ...]],
    near: list[int],
    leaf: dict[tuple[int, ...], int],
    low: int,
    high: int,
    path: tuple[int, ...],
) -> None:
    """Add what ``ordered[low:high]``, sorted and alike as far as ``path`` reaches, have below it.

    ``near[i]`` is what sequence i has in common with the one before it, so that in a sorted run the least of them is
    what all have in common.
    """
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
        _grow(forest, ordered, near, leaf, low, end, (*path, index))
        low = end
