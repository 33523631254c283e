"""Useful work. In: a model's size and encoded comparisons. Out: unique tokens, and their floating-point operations.

Counted is what no exact method can avoid: each token of the prefix tree once, without padding, recomputation or
repeated prefixes. A token costs, forward,

    2 P + 4 L h d c

with P the parameters of the layers' matrices (embedding and head left out), L layers, h query heads of d dimensions,
and c the tokens it attends to, itself among them; training costs three times as much (Kaplan et al., arXiv 2001.08361,
section 2.1, with attention counted causally). MFU is this per second over the device's peak.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.models import Size
from crm.model.encoding import EncodedComparison

PEAK = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12, "L4": 121e12, "RTX 4090": 165e12}
"""Dense bfloat16 operations a second, as the makers state them."""


@dataclass(frozen=True, slots=True)
class Work:
    """``tokens`` unique tokens, ``contexts`` the sum over them of the tokens each attends to."""

    tokens: int
    contexts: int


def unique_work(groups: Sequence[Sequence[EncodedComparison]]) -> Work:
    """Nodes of the prefix trees of all groups; prefixes are shared within a group (a pair, a query), not between."""
    tokens = contexts = 0
    for group in groups:
        seen = set()
        for sequence in (sequence for row in group for sequence in row.sequences):
            before = 0
            for depth, segment in enumerate(sequence):
                length = len(segment.ids)
                if (path := tuple(part.ids for part in sequence[: depth + 1])) not in seen:
                    seen.add(path)
                    tokens += length
                    contexts += length * before + length * (length + 1) // 2
                before += length
    return Work(tokens, contexts)


def matrix_parameters(size: Size) -> int:
    """Parameters of the layers' matrices."""
    attention = size.hidden * size.head_dim * (2 * size.heads + 2 * size.key_value_heads)
    return size.layers * (attention + 3 * size.hidden * size.intermediate)


def flops(size: Size, work: Work, *, training: bool) -> float:
    """Floating-point operations of ``work``, forward, or forward and backward."""
    forward = 2.0 * matrix_parameters(size) * work.tokens
    forward += 4.0 * size.layers * size.heads * size.head_dim * work.contexts
    return 3.0 * forward if training else forward


def peak_of(device: str) -> float | None:
    """Peak of a device by its name, None for one that the table lacks."""
    return next((peak for name, peak in PEAK.items() if name in device), None)
