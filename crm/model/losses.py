"""Losses. In: preference logits and soft targets. Out: one value per comparison, averaged by the caller."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits


def preference_loss(preference_logit: Tensor, target: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Cross-entropy of P(first preferred) = sigmoid(logit) against a soft target, shape (B,).

    For a scalar head this is the ranking loss, -log sigmoid(score difference); for a two-logit head it is the
    classification loss, since softmax over two logits is a sigmoid of their difference (arXiv 2508.09463, section 3).
    A tie is ``target`` 1/2. ``label_smoothing`` in [0, 1) moves targets towards 1/2.
    """
    smoothed = target * (1.0 - label_smoothing) + 0.5 * label_smoothing
    return binary_cross_entropy_with_logits(preference_logit, smoothed, reduction="none")


def centring_penalty(scores: Tensor) -> Tensor:
    """(score_a + score_b)^2 per comparison, shape (B,): keeps scores near zero, where only differences are trained.

    Eisenstein et al., arXiv 2312.09244, section 2.
    """
    return torch.square(scores.sum(dim=-1))
