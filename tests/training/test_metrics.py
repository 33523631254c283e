"""Accuracy against a loop, whatever the batches; ties of the voter say nothing, ties of the judge count half."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from crm.training.metrics import PreferenceAccuracy

fast = settings(derandomize=True, deadline=None, max_examples=40)
rows = st.lists(
    st.tuples(st.sampled_from([-5.0, -1e-6, 0.0, 1e-6, 2.0]), st.sampled_from([0.0, 0.5, 1.0])), max_size=30
)


def accuracy(*batches: list[tuple[float, float]]) -> float:
    metric = PreferenceAccuracy()
    for batch in batches:
        metric.update(torch.tensor([logit for logit, _ in batch]), torch.tensor([target for _, target in batch]))
    return metric.compute().item()


def test_by_hand() -> None:
    """Right, wrong, undecided (half), and a tie of the voter that is left out: (1 + 0 + 1/2) / 3."""
    assert accuracy([(2.0, 1.0), (2.0, 0.0), (0.0, 1.0), (9.0, 0.5)]) == pytest.approx(0.5)
    assert accuracy([(-2.0, 0.0), (1.0, 1.0)]) == 1.0


@fast
@given(rows, st.integers(0, 30))
def test_any_cut_into_batches_gives_the_mean_over_decided_rows(batch, cut) -> None:
    decided = [(logit, target) for logit, target in batch if target != 0.5]
    points = [0.5 if logit == 0 else float((logit > 0) == (target == 1.0)) for logit, target in decided]
    whole, parts = accuracy(batch), accuracy(batch[:cut], batch[cut:])
    if not points:
        assert math.isnan(whole) and math.isnan(parts)
    else:
        assert whole == parts == pytest.approx(sum(points) / len(points))


def test_ranks_are_summed_not_averaged() -> None:
    """What a reduction over ranks does: 1 of 1 and 0 of 3 are 1 of 4, not the mean of 100 % and 0 %."""
    ranks = [PreferenceAccuracy(), PreferenceAccuracy()]
    ranks[0].update(torch.tensor([1.0]), torch.tensor([1.0]))
    ranks[1].update(torch.tensor([1.0, 1.0, 1.0]), torch.tensor([0.0, 0.0, 0.0]))
    ranks[0].merge_state(ranks[1])
    assert ranks[0].compute().item() == 0.25
    assert set(ranks[0]._reductions) == {"correct", "total"}


def test_a_broken_logit_shows() -> None:
    assert math.isnan(accuracy([(math.nan, 1.0), (1.0, 1.0)]))
