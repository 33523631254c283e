"""What a reward model makes of a batch, and how far two ways to the same may be apart."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from crm.model.reward_model import RewardModel
from tests.conftest import rounding

Outcome = tuple[Tensor, dict[str, Tensor]]


def outcome(model: RewardModel, batch: Any) -> Outcome:
    """Logits, and the gradient of a sum of them in which each has a weight of its own."""
    model.zero_grad()
    logits = model(batch).preference_logit
    (logits * torch.linspace(-1.0, 2.0, len(logits))).sum().backward()
    return logits.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_same(found: Outcome, expected: Outcome) -> None:
    """But for rounding in the dtype of the numbers; a small gradient may be the difference of large ones."""
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=rounding(expected[0]))
    assert found[1].keys() == expected[1].keys() != set()
    allowed = max(rounding(gradient) for gradient in expected[1].values())
    for name, gradient in expected[1].items():
        torch.testing.assert_close(found[1][name], gradient, rtol=0, atol=allowed, msg=name)
