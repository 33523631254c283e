"""The loss of training: its settings (``conf/loss``), the head that each selects, and the formula."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from crm.config import Settings, setting
from crm.data.comparisons import TIES
from crm.model.heads import HeadOutput, head_named

if TYPE_CHECKING:  # settings are read without torch
    from torch import Tensor

LOSSES = {"cls": "pairwise", "ranking": "scalar"}
"""The losses of the paper and the head each selects when ``head=auto``."""


@dataclass
class LossConfig(Settings, group="loss"):
    """Both losses are `preference_loss`: they differ in the head whose logit it takes."""

    name: str = setting("ranking", one_of=LOSSES)
    label_smoothing: float = setting(0.0, at_least=0, below=1)
    """Share of the target moved to 1/2."""
    ties: str = setting("drop", one_of=TIES)
    """``drop`` leaves ties out and counts them; ``soft`` trains on them with target 1/2."""
    centre_scores: float = setting(0.0, at_least=0)
    """Weight of (score_a + score_b)^2; needs a head with scores."""
    off_criteria_penalty: float = setting(0.0, at_least=0)
    """Weight of the squared score difference under criteria of other comparisons of the same forward pass, so that it
    depends on ``batching.tokens`` and the devices; needs head=late."""

    def head(self, name: str) -> str:
        """The head to train; ``auto`` is that of the loss. Raises ``ValueError`` for one that contradicts the loss."""
        chosen = LOSSES[self.name] if name == "auto" else name
        if head_named(chosen).joint == (self.name == "cls"):
            return chosen
        other = next(loss for loss in LOSSES if loss != self.name)
        raise ValueError(
            f"head={chosen} with loss={self.name}: loss=cls trains a head that reads both responses at once, "
            f"loss=ranking one that scores each; write loss={other} head={chosen}, or loss={self.name} "
            f"head={LOSSES[self.name]}"
        )


def preference_loss(preference_logit: Tensor, target: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Cross-entropy of P(first preferred) = sigmoid(logit) against a soft target, shape (B,).

    For a scalar head this is the ranking loss, -log sigmoid(score difference); for a two-logit head it is the
    classification loss, since softmax over two logits is a sigmoid of their difference (arXiv 2508.09463, section 3).
    A tie is ``target`` 1/2. ``label_smoothing`` in [0, 1) moves targets towards 1/2.
    """
    from torch.nn.functional import binary_cross_entropy_with_logits

    smoothed = target * (1.0 - label_smoothing) + 0.5 * label_smoothing
    return binary_cross_entropy_with_logits(preference_logit, smoothed, reduction="none")


def training_loss(output: HeadOutput, target: Tensor, settings: LossConfig) -> tuple[Tensor, Tensor]:
    """Mean `preference_loss` of a pass, and what is minimised: that and the penalties of the settings.

    ``centre_scores`` keeps scores near zero, where only differences are trained (Eisenstein et al., arXiv 2312.09244,
    section 2).
    """
    loss = objective = preference_loss(output.preference_logit, target, settings.label_smoothing).mean()
    if settings.centre_scores and output.scores is not None:
        objective = objective + settings.centre_scores * output.scores.sum(dim=-1).square().mean()
    if settings.off_criteria_penalty and output.off_criteria is not None:
        objective = objective + settings.off_criteria_penalty * output.off_criteria.mean()
    return loss, objective
