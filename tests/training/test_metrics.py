"""Accuracy against a loop, whatever the batches; ties of the voter say nothing, ties of the judge count half."""

import math
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crm.training.metrics import PreferenceAccuracy, ValidationMetrics

rows = st.lists(
    st.tuples(st.sampled_from([-5.0, -1e-6, 0.0, 1e-6, 2.0]), st.sampled_from([0.0, 0.5, 1.0])), max_size=30
)


def accuracy(*batches: list[tuple[float, float]]) -> float:
    metric = PreferenceAccuracy()
    for batch in batches:
        metric.update(torch.tensor([logit for logit, _ in batch]), torch.tensor([target for _, target in batch]))
    return metric.compute().item()


@settings(max_examples=40)
@given(rows, st.integers(0, 30))
def test_any_cut_into_batches_gives_the_mean_over_decided_rows(batch, cut) -> None:
    decided = [(logit, target) for logit, target in batch if target != 0.5]
    points = [0.5 if logit == 0 else float((logit > 0) == (target == 1.0)) for logit, target in decided]
    whole, parts = accuracy(batch), accuracy(batch[:cut], batch[cut:])
    if not points:
        assert math.isnan(whole) and math.isnan(parts)
    else:
        assert whole == parts == pytest.approx(sum(points) / len(points))


class Rows(NamedTuple):
    target: torch.Tensor
    reverse: torch.Tensor


def test_directions_are_measured_apart_and_a_missing_one_is_left_out() -> None:
    """A judge that always takes the winner of the vote: right in the original direction, wrong in reverse."""
    metrics = ValidationMetrics()
    metrics.update(
        torch.tensor([3.0, 3.0, 3.0]), Rows(torch.tensor([1.0, 0.0, 0.0]), torch.tensor([False, True, True]))
    )
    numbers = metrics.finish()
    numbers = {name: value.item() for name, value in numbers.items()}
    assert numbers == {"accuracy_original": 1.0, "accuracy_reverse": 0.0, "accuracy_sum": 1.0}
    metrics.update(torch.tensor([3.0]), Rows(torch.tensor([1.0]), torch.tensor([False])))
    numbers = metrics.finish()
    assert set(numbers) == {"accuracy_original"}, "it starts anew"


def test_one_row_that_is_nan_makes_the_loss_nan() -> None:
    metrics = ValidationMetrics()
    for logit in (1.0, math.nan):
        metrics.update(torch.tensor([logit]), Rows(torch.tensor([1.0]), torch.tensor([False])))
    assert math.isnan(metrics.loss.compute())


def test_a_blind_judge_sums_to_one_on_pairs_and_rows_of_one_side_count_elsewhere() -> None:
    """Two pairs in both directions, and three rows of one direction that a blind judge gets right."""
    logits = torch.tensor([2.0, 2.0, -1.0, -1.0, 1.0, 1.0, 1.0])
    reverse = torch.tensor([False, True, False, True, False, False, False])
    target = torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0])
    paired = torch.tensor([True] * 4 + [False] * 3)
    metrics = ValidationMetrics()
    for part in (slice(0, 3), slice(3, 7)):  # a pair may be in two batches
        metrics.update(logits[part], Rows(target[part], reverse[part]), paired=paired[part])
    assert metrics.accuracy.compute() == pytest.approx((1 + 0 + 0 + 1 + 3) / 7)
    numbers = metrics.finish()
    assert {name: value.item() for name, value in numbers.items()} == {
        "accuracy_original": 0.5, "accuracy_reverse": 0.5, "accuracy_sum": 1.0
    }  # fmt: skip
    # Of a training in direction original the loss and accuracy are of that direction.
    metrics = ValidationMetrics()
    metrics.update(logits, Rows(target, reverse), counted=~reverse, paired=paired)
    assert metrics.accuracy.compute() == pytest.approx(4 / 5)
    assert metrics.loss.compute() == pytest.approx(
        (math.log1p(math.exp(-2)) + math.log1p(math.e) + 3 * math.log1p(math.exp(-1))) / 5
    )
    numbers = metrics.finish()
    assert numbers["accuracy_sum"] == 1
    metrics.update(logits[1:2], Rows(target[1:2], reverse[1:2]), counted=~reverse[1:2], paired=paired[1:2])
