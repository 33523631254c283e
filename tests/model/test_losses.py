"""Losses against torch's cross-entropy, the ranking loss, and numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import cross_entropy, logsigmoid

from crm.model.reward_model import centring_penalty, preference_loss

LOGITS = torch.tensor([-30.0, -2.0, -0.1, 0.0, 0.4, 3.0, 30.0], dtype=torch.float64)


def test_it_is_the_classification_loss_of_two_logits() -> None:
    two = torch.stack([LOGITS * 0.75, -LOGITS * 0.25], dim=1)
    for label in (0, 1):
        expected = cross_entropy(two, torch.full((len(LOGITS),), label), reduction="none")
        torch.testing.assert_close(preference_loss(LOGITS, torch.full_like(LOGITS, 1.0 - label)), expected)


def test_it_is_the_ranking_loss_of_a_score_difference() -> None:
    torch.testing.assert_close(preference_loss(LOGITS, torch.ones_like(LOGITS)), -logsigmoid(LOGITS))
    torch.testing.assert_close(preference_loss(LOGITS, torch.zeros_like(LOGITS)), -logsigmoid(-LOGITS))


def test_a_tie_is_half_of_each_and_least_at_zero() -> None:
    half = preference_loss(LOGITS, torch.full_like(LOGITS, 0.5))
    torch.testing.assert_close(half, -0.5 * (logsigmoid(LOGITS) + logsigmoid(-LOGITS)))
    assert int(half.argmin()) == 3 and half[3].item() == pytest.approx(math.log(2))


def test_label_smoothing_by_hand() -> None:
    """Smoothing 0.2 makes targets 0.9 and 0.1; with logit ln 3, P = 3/4."""
    logit = torch.tensor([math.log(3.0)] * 2)
    by_hand = [-0.9 * math.log(0.75) - 0.1 * math.log(0.25), -0.1 * math.log(0.75) - 0.9 * math.log(0.25)]
    assert preference_loss(logit, torch.tensor([1.0, 0.0]), 0.2).tolist() == pytest.approx(by_hand)
    assert preference_loss(logit, torch.tensor([0.5, 0.5]), 0.2).tolist() == pytest.approx(
        preference_loss(logit, torch.tensor([0.5, 0.5])).tolist()
    ), "a tie is smooth already"


def test_centring_by_hand() -> None:
    assert centring_penalty(torch.tensor([[1.0, 2.0], [3.0, -3.0], [-1.0, 0.0]])).tolist() == [9.0, 0.0, 1.0]
