"""Batches: tensors for one forward pass and where the head reads, padded or as a forest of shared prefixes.

Letters: B comparisons, S sequences (at most 2B), T tokens of the longest sequence, N tokens of a forest's row, R
distinct tokens at which the head reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from crm.model.batching.forest import Node, TreeMask, fill_up, full_mask, grow_forest, read_mask
from crm.model.encoding import EncodedComparison, token_ids

Locate = Callable[[int, int, int, int], Sequence[int]]
"""Where in a batch's flattened tokens those of a comparison (by number) lie, of its sequence (too), from and to."""
WIDTH_STEP, ROW_STEP = 16, 64
"""Rows are padded to a multiple of this, and a forest's row filled up: few distinct shapes, so that kernels prepared
for one serve again."""


@dataclass
class TextTokens:
    """Texts that a head pools over, each distinct one once: U responses, V criteria, at most K criteria a comparison.

    Tokens are places in the batch's flattened tokens; -1 fills up. Texts are numbered through from the shortest to the
    longest, in groups of near-equal length, since one long text would pad all others.
    """

    responses: list[Tensor]
    """(texts, longest) int64 each, U texts together"""
    criteria: list[Tensor]
    """(texts, longest) int64 each, V texts together"""
    shown: Tensor
    """(B, 2) int64 in [0, U): the response shown first and the one shown second"""
    asked: Tensor
    """(B, K) int64 in [0, V), or -1: the criteria of each comparison"""

    def to(self, device: torch.device | str) -> TextTokens:
        """The same on another device."""
        responses, criteria = ([group.to(device) for group in groups] for groups in (self.responses, self.criteria))
        return TextTokens(responses, criteria, self.shown.to(device), self.asked.to(device))


def text_tokens(encoded: Sequence[EncodedComparison], locate: Locate) -> TextTokens | None:
    """The texts of a batch; None for a head that reads at single tokens."""
    if not encoded[0].spans:
        return None
    places = [
        [tuple(locate(row, sequence, *span)) for sequence, span in enumerate(item.spans)]
        for row, item in enumerate(encoded)
    ]
    responses = by_length(text for texts in places for text in texts[:2])
    criteria = by_length(text for texts in places for text in texts[2:])
    shown = [[responses[text] for text in texts[:2]] for texts in places]
    asked = [[criteria[text] for text in texts[2:]] for texts in places]
    return TextTokens(length_groups(responses), length_groups(criteria), torch.tensor(shown), _filled(asked))


def by_length(texts: Iterable[tuple[int, ...]]) -> dict[tuple[int, ...], int]:
    """A number for each distinct text, the shortest first."""
    ordered = sorted(dict.fromkeys(texts), key=len)
    return {text: number for number, text in enumerate(ordered)}


def length_groups(ordered: Iterable[tuple[int, ...]]) -> list[Tensor]:
    """Texts one after the other, (texts, longest) in a group: a new one where a text would pad the first by a third."""
    groups: list[list[tuple[int, ...]]] = []
    for text in ordered:
        if not groups or 3 * len(text) > 4 * len(groups[-1][0]) + 12:
            groups.append([])
        groups[-1].append(text)
    return [_filled(group) for group in groups]


def _filled(rows: Iterable[Sequence[int]]) -> Tensor:
    """(rows, longest) int64, filled up with -1."""
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=-1)


@dataclass(kw_only=True)
class _Labels:
    """What every batch says of its B comparisons."""

    target: Tensor
    """(B,) float32 in {0, 1/2, 1}: probability that the response shown first is preferred"""
    sign: Tensor
    """(B,) float32: +1 where response A of the record stands first, -1 where B does"""
    reverse: Tensor
    """(B,) bool: whether the criteria are those of the side that lost the vote"""
    tokens: int
    """Of all sequences, without what fills up"""
    texts: TextTokens | None = None
    """For a head that pools over tokens"""
    weight: float = 1.0
    """Factor of this batch's mean loss, so that every comparison of an optimizer step counts the same"""

    def to(self, device: torch.device | str) -> Self:
        """The same batch on another device."""
        return replace(self, **{name: part.to(device) for name, part in vars(self).items() if hasattr(part, "to")})

    def __len__(self) -> int:
        return int(self.target.shape[0])


@dataclass(kw_only=True)
class PaddedBatch(_Labels):
    """One forward pass. Right padding; equal sequences (a shared baseline, say) are read once."""

    input_ids: Tensor
    """(S, T) int64"""
    attention_mask: Tensor
    """(S, T) int64, 1 on tokens and 0 on padding"""
    rows: Tensor
    """(B, 2) int64: row of the response shown first and of the one shown second"""
    positions: Tensor
    """(B, 2) int64: token at which the head reads in that row"""


@dataclass(kw_only=True)
class ForestBatch(_Labels):
    """One forward pass over a forest (`crm.model.batching.forest`)."""

    input_ids: Tensor
    """(1, N) int64"""
    position_ids: Tensor
    """(1, N) int64, from 0 in every sequence"""
    read_tokens: Tensor
    """(R,) int64, ascending: tokens at which the head reads"""
    reads: Tensor
    """(B, 2) int64 in [0, R): which of these for the response shown first and for the one shown second"""
    nodes: list[Node]
    """Of the forest, in the order of the row"""
    tree_mask: TreeMask
    """For all N tokens"""
    read_mask: TreeMask
    """For the R read tokens alone"""


Batch = PaddedBatch | ForestBatch


def collate(encoded: Sequence[EncodedComparison], pad_id: int, weight: float = 1.0) -> PaddedBatch:
    """Pad comparisons into one batch.

    Two comparisons whose sequences are [5, 6] and [5, 6, 7], pad id 0, give ``input_ids`` [[5, 6, 0, ...],
    [5, 6, 7, ...]], filled with the pad id to a multiple of `WIDTH_STEP`.
    """
    row_of: dict[tuple[int, ...], int] = {}
    own_rows = [[row_of.setdefault(token_ids(part), len(row_of)) for part in item.sequences] for item in encoded]
    width = -(-max(map(len, row_of)) // WIDTH_STEP) * WIDTH_STEP
    input_ids = torch.full((len(row_of), width), pad_id, dtype=torch.int64)
    attention_mask = torch.zeros_like(input_ids)
    for ids, row in row_of.items():
        input_ids[row, : len(ids)] = torch.tensor(ids)
        attention_mask[row, : len(ids)] = 1

    def locate(index: int, sequence: int, start: int, end: int) -> Sequence[int]:
        before = own_rows[index][sequence] * width
        return range(before + start, before + end)

    rows = [[own[sequence] for sequence, _ in item.reads] for own, item in zip(own_rows, encoded, strict=True)]
    return PaddedBatch(
        input_ids=input_ids,
        attention_mask=attention_mask,
        rows=torch.tensor(rows),
        positions=torch.tensor([[position for _, position in item.reads] for item in encoded]),
        tokens=sum(map(len, row_of)),
        texts=text_tokens(encoded, locate),
        weight=weight,
        **_labels(encoded),
    )


def collate_forest(encoded: Sequence[EncodedComparison], *, weight: float = 1.0, multiple: int = 1) -> ForestBatch:
    """Lay comparisons out in one row of a ``multiple`` of tokens, in which common beginnings are one node."""
    flat = [list(map(token_ids, item.sequences)) for item in encoded]
    first = [0, *accumulate(map(len, flat))]
    forest = grow_forest([sequence for sequences in flat for sequence in sequences])
    tokens = len(forest.ids)
    fill_up(forest, multiple)
    places_of = cache(forest.places)  # a text may be in many comparisons

    def locate(index: int, sequence: int, start: int, end: int) -> Sequence[int]:
        return places_of(forest.leaf_of[first[index] + sequence], start, end)

    places = [
        [locate(index, sequence, position, position + 1)[0] for sequence, position in item.reads]
        for index, item in enumerate(encoded)
    ]
    read_tokens = sorted({place for pair in places for place in pair})
    rank = {place: index for index, place in enumerate(read_tokens)}
    return ForestBatch(
        input_ids=torch.tensor([forest.ids]),
        position_ids=torch.tensor([forest.positions]),
        read_tokens=torch.tensor(read_tokens),
        reads=torch.tensor([[rank[place] for place in pair] for pair in places]),
        nodes=forest.nodes,
        tree_mask=full_mask(forest),
        read_mask=read_mask(forest, read_tokens),
        tokens=tokens,
        texts=text_tokens(encoded, locate),
        weight=weight,
        **_labels(encoded),
    )


def _labels(encoded: Sequence[EncodedComparison]) -> dict[str, Any]:
    return {
        "target": torch.tensor([item.target for item in encoded], dtype=torch.float32),
        "sign": torch.tensor([1.0 if item.order == "ab" else -1.0 for item in encoded]),
        "reverse": torch.tensor([item.comparison.direction == "reverse" for item in encoded]),
    }
