"""Running metrics of preference predictions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torchmetrics import MeanMetric, Metric

from crm.model.reward_model import preference_loss


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


class CalibrationError(Metric):
    """Mean gap, in [0, 1], of confidence max(p, 1 - p) and accuracy over equal bins of [0.5, 1], weighted by count.

    The same number as `crm.report.statistics.expected_calibration_error`, from sums: no row is kept. NaN where no row
    was decided.
    """

    full_state_update = False
    higher_is_better = False
    is_differentiable = False
    gaps: Tensor
    total: Tensor

    def __init__(self, bins: int = 10) -> None:
        super().__init__()
        self.bins = bins
        self.add_state("gaps", torch.zeros(bins, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("total", torch.tensor(0.0, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, preference_logit: Tensor, target: Tensor) -> None:
        """As `PreferenceAccuracy.update`."""
        decided = target != 0.5
        logit, sign = preference_logit[decided].double(), torch.sign(target[decided] - 0.5)
        right, confidence = (torch.sign(logit) * sign + 1.0) / 2.0, logit.abs().sigmoid()
        index = ((confidence - 0.5) * 2 * self.bins).long().clamp(max=self.bins - 1)
        self.gaps += torch.zeros_like(self.gaps).index_add(0, index, right - confidence)
        self.total += decided.sum()

    def compute(self) -> Tensor:
        """The error so far, float32 scalar."""
        return (self.gaps.abs().sum() / self.total).float()


class ValidationMetrics(nn.Module):
    """What a validation measures: loss, accuracy, accuracy by direction, and calibration."""

    def __init__(self) -> None:
        super().__init__()
        self.loss = MeanMetric()
        self.accuracy, self.original, self.reverse = PreferenceAccuracy(), PreferenceAccuracy(), PreferenceAccuracy()
        self.calibration = CalibrationError()

    def update(
        self, preference_logit: Tensor, batch: Any, counted: Tensor | None = None, paired: Tensor | None = None
    ) -> None:
        """``preference_logit`` (B,) of a batch with ``target`` (B,) and ``reverse`` (B,).

        Rows that are ``counted`` (B,) are in all but the accuracies by direction, which are of those that are
        ``paired`` (B,): whose pair is read in both directions. None: all rows.
        """
        every = torch.ones_like(batch.reverse)
        counted, paired = (every if rows is None else rows.to(every.device) for rows in (counted, paired))
        self.loss.update(preference_loss(preference_logit, batch.target)[counted])
        for metric in (self.accuracy, self.calibration):
            metric.update(preference_logit[counted], batch.target[counted])
        for metric, rows in ((self.original, paired & ~batch.reverse), (self.reverse, paired & batch.reverse)):
            metric.update(preference_logit[rows], batch.target[rows])

    def finish(self) -> dict[str, Tensor]:
        """Accuracy by direction and calibration, which Lightning does not average; all ranks together. Starts anew.

        ``accuracy_sum`` of both directions, on the same pairs, is 1 for a model that does not read the criteria. A
        direction that no row has is left out, and so is the sum.
        """
        original, reverse = self.original.compute(), self.reverse.compute()
        numbers = {
            "accuracy_original": original,
            "accuracy_reverse": reverse,
            "accuracy_sum": original + reverse,
            "expected_calibration_error": self.calibration.compute(),
        }
        for metric in (self.original, self.reverse, self.calibration):
            metric.reset()
        return {name: value for name, value in numbers.items() if not torch.isnan(value)}
