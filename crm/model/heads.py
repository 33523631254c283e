"""Heads. In: hidden states at the two read positions of a comparison. Out: `preference_logit` and, maybe, scores.

All heads are one bias-free linear layer named ``score`` with one or two outputs, so that every one of them exports to
a stock Hugging Face class. They differ in where they read (`crm.model.encoding`) and in which output they use there.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from crm.model.encoding import HEADS, HeadName


class HeadOutput(NamedTuple):
    """What a head says of B comparisons, first shown against second shown."""

    preference_logit: Tensor
    """(B,) float32, log-odds that the response shown first is preferred"""
    scores: Tensor | None
    """(B, 2) float32, a score a response; None for the pairwise head, which has none"""


def build_score(head: HeadName, hidden_size: int, seed: int, start: nn.Linear | None = None) -> nn.Linear:
    """The linear layer of a head, initialised from ``seed`` alone.

    ``pairwise_span`` starts with two equal rows, so that at first it reads both spans with one yardstick, as the
    scalar head does; training then lets them part. ``start`` is the layer of a trained head to go on from: its one row
    serves both spans, an equal shape is taken over; the pairwise head, which reads another state, starts anew.
    """
    if head not in HEADS:
        raise ValueError(f"head.name={head!r}: expected one of {', '.join(HEADS)}")
    score = nn.Linear(hidden_size, 1 if head == "scalar" else 2, bias=False)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        score.weight.normal_(0.0, hidden_size**-0.5, generator=generator)
        if head == "pairwise_span":
            score.weight[1] = score.weight[0]
        if start is not None and start.out_features in (1, score.out_features) and head != "pairwise":
            score.weight.copy_(start.weight.expand_as(score.weight))
    return score


def read_head(head: HeadName, score: nn.Linear, states: Tensor) -> HeadOutput:
    """Apply a head to ``states`` (B, 2, H), in float32 whatever the precision around it.

    Two logits rounded to bfloat16 are equal far more often than two responses are.
    """
    with torch.autocast(states.device.type, enabled=False):
        logits = linear(states.float(), score.weight.float())
    if head == "scalar":
        scores = logits[..., 0]
    elif head == "pairwise_span":
        scores = torch.stack([logits[:, 0, 0], logits[:, 1, 1]], dim=-1)
    else:
        last = logits[:, 1]
        return HeadOutput(last[:, 0] - last[:, 1], None)
    return HeadOutput(scores[:, 0] - scores[:, 1], scores)
