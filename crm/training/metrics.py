"""Running metrics of a preference judge. In: logits and soft targets, batch by batch. Out: rates over all ranks."""

from __future__ import annotations

import torch
from torch import Tensor
from torchmetrics import Metric


class PreferenceAccuracy(Metric):
    """Share of decided comparisons on which the judge agrees, in [0, 1]; a logit of exactly 0 counts one half.

    Rows whose target is 1/2 are ties of the voter: they say nothing about agreement and are left out. NaN where no
    row was decided, or where a logit was NaN.
    """

    full_state_update = False
    higher_is_better = True
    is_differentiable = False
    correct: Tensor
    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("correct", torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("total", torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, preference_logit: Tensor, target: Tensor) -> None:
        """``preference_logit`` (B,) and ``target`` (B,) in {0, 1/2, 1}, about the same response."""
        decided = target != 0.5
        agreement = torch.sign(preference_logit) * torch.sign(target - 0.5)
        points = ((agreement + 1.0) / 2.0).masked_fill(preference_logit.isnan(), torch.nan)  # sign(NaN) is 0, a tie
        self.correct += points[decided].double().sum()
        self.total += decided.sum()

    def compute(self) -> Tensor:
        """Accuracy so far, float32 scalar."""
        return (self.correct / self.total).float()
