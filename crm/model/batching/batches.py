"""Padded batches. In: encoded comparisons. Out: tensors for one forward pass and where the head reads.

Letters: B comparisons, S sequences (at most 2B), T tokens of the longest sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from crm.model.encoding import EncodedComparison, Span, token_ids

Locate = Callable[[int, Span], Sequence[int]]
"""Where the tokens of a span of the i-th comparison of a batch lie in its flattened tokens."""
WIDTH_STEP = 16
"""Rows are padded to a multiple of this: few distinct shapes, so that kernels prepared for one serve again."""


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
    """(B, K) int64 in [0, V), or -1: the criteria of each comparison, or one of `LateHead.user_vectors`"""

    def to(self, device: torch.device | str, non_blocking: bool = False) -> TextTokens:
        """The same on another device."""

        def moved(groups: Iterable[Tensor]) -> list[Tensor]:
            return [group.to(device, non_blocking=non_blocking) for group in groups]

        return TextTokens(moved(self.responses), moved(self.criteria), *moved((self.shown, self.asked)))


def text_tokens(encoded: Sequence[EncodedComparison], locate: Locate) -> TextTokens | None:
    """The texts of a batch; None for a head that reads at single tokens."""
    if not encoded[0].spans:
        return None
    places = [[tuple(locate(row, span)) for span in item.spans] for row, item in enumerate(encoded)]
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


@dataclass
class PaddedBatch:
    """One forward pass. Right padding; equal sequences (a shared baseline, say) are read once."""

    input_ids: Tensor
    """(S, T) int64"""
    attention_mask: Tensor
    """(S, T) int64, 1 on tokens and 0 on padding"""
    rows: Tensor
    """(B, 2) int64: row of the response shown first and of the one shown second"""
    positions: Tensor
    """(B, 2) int64: token at which the head reads in that row"""
    target: Tensor
    """(B,) float32 in {0, 1/2, 1}: probability that the response shown first is preferred"""
    sign: Tensor
    """(B,) float32: +1 where response A of the record stands first, -1 where B does"""
    reverse: Tensor
    """(B,) bool: whether the criteria are those of the side that lost the vote"""
    texts: TextTokens | None = None
    """For a head that pools over tokens"""

    weight: float = 1.0
    """Factor of this batch's mean loss, so that every comparison of an optimizer step counts the same"""

    def to(self, device: torch.device | str) -> PaddedBatch:
        """The same batch on another device."""
        parts: dict[str, Any] = {name: value for name, value in vars(self).items() if hasattr(value, "to")}
        return replace(self, **{name: part.to(device, non_blocking=True) for name, part in parts.items()})

    @property
    def tokens(self) -> int:
        """Tokens computed, padding left out. Ask on the CPU: on a GPU the answer waits for the device."""
        return int(self.attention_mask.sum())

    @property
    def pairs(self) -> int:
        """(query, key) pairs of tokens that attention reads: n (n + 1) / 2 in a sequence of n. Ask on the CPU."""
        lengths = self.attention_mask.sum(dim=1)
        return int((lengths * (lengths + 1) // 2).sum())

    def __len__(self) -> int:
        return int(self.target.shape[0])


def collate(encoded: Sequence[EncodedComparison], pad_id: int, weight: float = 1.0) -> PaddedBatch:
    """Pad comparisons into one batch.

    Two comparisons whose sequences are [5, 6] and [5, 6, 7], pad id 0, give ``input_ids`` [[5, 6, 0, ...],
    [5, 6, 7, ...]], filled with the pad id to a multiple of `WIDTH_STEP`.
    """
    row_of: dict[tuple[int, ...], int] = {}
    own_rows, rows, positions = [], [], []
    for item in encoded:
        own_rows.append([row_of.setdefault(token_ids(sequence), len(row_of)) for sequence in item.sequences])
        rows.append([own_rows[-1][sequence] for sequence, _ in item.reads])
        positions.append([position for _, position in item.reads])
    width = -(-max(map(len, row_of)) // WIDTH_STEP) * WIDTH_STEP
    input_ids = torch.full((len(row_of), width), pad_id, dtype=torch.int64)
    attention_mask = torch.zeros_like(input_ids)
    for ids, row in row_of.items():
        input_ids[row, : len(ids)] = torch.tensor(ids)
        attention_mask[row, : len(ids)] = 1

    def locate(index: int, span: Span) -> Sequence[int]:
        start = own_rows[index][span.sequence] * width
        return range(start + span.start, start + span.end)

    return PaddedBatch(
        input_ids,
        attention_mask,
        torch.tensor(rows),
        torch.tensor(positions),
        torch.tensor([item.target for item in encoded], dtype=torch.float32),
        torch.tensor([1.0 if item.order == "ab" else -1.0 for item in encoded]),
        torch.tensor([item.comparison.direction == "reverse" for item in encoded]),
        text_tokens(encoded, locate),
        weight,
    )
