"""Running metrics of preference predictions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torchmetrics import MeanMetric

from crm.training.loss import preference_loss


class PreferenceAccuracy(MeanMetric):
    """Share of decided comparisons on which the judge agrees, in [0, 1]; a logit of exactly 0 counts one half.

    Rows whose target is 1/2 are ties of the voter: they say nothing about agreement and are left out. NaN where no
    row was decided, or where a logit was NaN.
    """

    def __init__(self) -> None:
        super().__init__(nan_strategy="disable")

    def update(self, preference_logit: Tensor, target: Tensor) -> None:  # type: ignore[override]
        """``preference_logit`` (B,) and ``target`` (B,) in {0, 1/2, 1}, about the same response."""
        decided = target != 0.5
        agreement = torch.sign(preference_logit) * torch.sign(target - 0.5)
        points = ((agreement + 1.0) / 2.0).masked_fill(preference_logit.isnan(), torch.nan)  # sign(NaN) is 0, a tie
        super().update(points[decided])


class ValidationMetrics(nn.Module):
    """What a validation measures: loss, accuracy, and accuracy by direction."""

    def __init__(self) -> None:
        super().__init__()
        self.loss = MeanMetric(nan_strategy="disable")  # NaN where a row's is: else it would be left out
        self.accuracy, self.original, self.reverse = PreferenceAccuracy(), PreferenceAccuracy(), PreferenceAccuracy()

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
        self.accuracy.update(preference_logit[counted], batch.target[counted])
        for metric, rows in ((self.original, paired & ~batch.reverse), (self.reverse, paired & batch.reverse)):
            metric.update(preference_logit[rows], batch.target[rows])

    def finish(self) -> dict[str, Tensor]:
        """Accuracy by direction, of all ranks together. Starts anew.

        ``accuracy_sum`` of both directions, on the same pairs, is 1 for a model that does not read the criteria. A
        direction that no row has is left out, and so is the sum.
        """
        original, reverse = self.original.compute(), self.reverse.compute()
        numbers = {"accuracy_original": original, "accuracy_reverse": reverse, "accuracy_sum": original + reverse}
        self.original.reset()
        self.reverse.reset()
        return {name: value for name, value in numbers.items() if not torch.isnan(value)}
