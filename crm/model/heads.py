"""Heads: which sequences a head wants, where in them it reads, and what it makes of the states there.

All but ``late`` have one bias-free linear layer named ``score``, so that they export to a stock Hugging Face class;
``late`` pools over tokens (`crm.model.late_head`) and combines two scores as the scalar head does. Another package adds
a head by an entry point of the group ``crm.heads`` that names a `Head`; one of this package: docs/extending.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from crm.io.installed import check_known, plugin

if TYPE_CHECKING:  # settings name heads, and are read without torch
    from torch import Tensor


POINTWISE_INSTRUCTION = "This user cares about:"
PAIRWISE_INSTRUCTION = "Two responses, in no particular order. This user cares about:"
KEPT, WIDTH = 16, 64
"""States that a late head keeps of a response, and numbers of each."""


class HeadOutput(NamedTuple):
    """Of B comparisons, first shown against second shown."""

    preference_logit: Tensor
    """(B,) float32, log-odds that the response shown first is preferred"""
    scores: Tensor | None
    """(B, 2) float32, a score a response; None for a head that has none"""
    off_criteria: Tensor | None = None
    """(B,) float32, of a late head in training: mean square of score differences under criteria of other comparisons"""


@dataclass(frozen=True)
class Head:
    """What sets one head apart from another."""

    name: str
    joint: bool
    """Whether one sequence holds both responses; else each has a sequence of its own, read at its end."""
    outputs: int
    """Rows of the ``score`` layer: 1 or 2."""
    combine: Callable[[Tensor], HeadOutput]
    """From (B, 2, outputs) float32: the layer's outputs at the first and at the second read position."""
    spans: bool = False
    """Of a joint head: whether it reads at the end of each response; else at the last token, twice."""
    has_scores: bool = True
    """Whether a response has a score of its own."""
    apart: bool = False
    """Whether query and response are read without the criteria, each criterion by itself, and all their tokens."""

    @property
    def instruction(self) -> str:
        """What precedes the criteria."""
        return PAIRWISE_INSTRUCTION if self.joint else POINTWISE_INSTRUCTION


def difference(scores: Tensor) -> HeadOutput:
    """The preference logit (B,) is the first score minus the second, of ``scores`` (B, 2)."""
    return HeadOutput(scores[:, 0] - scores[:, 1], scores)


_OWN = {
    head.name: head
    for head in (
        Head("scalar", False, 1, lambda out: difference(out[..., 0])),
        Head("late", False, 1, lambda out: difference(out[..., 0]), apart=True),
        Head("pairwise", True, 2, lambda out: HeadOutput(out[:, 1, 0] - out[:, 1, 1], None), has_scores=False),
        # The first output at the first read, the second at the second.
        Head("pairwise_span", True, 2, lambda out: difference(out.diagonal(dim1=1, dim2=2)), spans=True),
    )
}
HEADS = tuple(_OWN)
"""Names of the heads that are always there."""


@cache
def head_named(name: str) -> Head:
    """A head of this project or of an installed package. Raises ``ValueError`` for an unknown one."""
    check_known("head.name", name, HEADS, "heads")
    found: Head = _OWN.get(name) or plugin("heads", name)
    return found
