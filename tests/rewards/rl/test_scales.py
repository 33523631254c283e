"""Standard deviations above the mean of the first scores, against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from crm.rewards.rl.scales import SETTLED, Scales

RNG = np.random.default_rng(5)


def test_scores_are_in_standard_deviations_of_their_own_criteria() -> None:
    scales = Scales()
    wide, narrow = (list(RNG.normal(3.0, spread, 40)) for spread in (9.0, 0.1))
    scales.add(("wide",), wide)
    scales.add(("narrow",), narrow)
    for name, scores in (("wide", wide), ("narrow", narrow)):
        found = scales.standardized((name,), scores)
        assert found == pytest.approx(list((np.array(scores) - np.mean(scores)) / np.std(scores)))


def test_the_unit_stays_once_it_is_settled() -> None:
    scales = Scales()
    first = list(RNG.normal(0.0, 2.0, SETTLED - 4))
    later = list(RNG.normal(50.0, 7.0, 32))
    scales.add(("a",), first)
    scales.add(("a",), later)
    settled = np.array([*first, *later[:4]])
    expected = (1.0 - settled.mean()) / settled.std()
    assert scales.standardized(("a",), [1.0]) == pytest.approx([expected])
    scales.add(("a",), later)
    assert scales.standardized(("a",), [1.0]) == pytest.approx([expected])


def test_order_within_a_group_is_kept_and_none_stays_none() -> None:
    scales = Scales()
    scores = [1.0, None, 4.0, 2.0]
    assert scales.standardized(("a",), [None, None]) == [None, None]
    scales.add(("a",), scores)
    found = scales.standardized(("a",), scores)
    assert found[1] is None
    assert found[0] < found[3] < found[2]  # type: ignore[operator]


def test_equal_scores_are_centred_and_never_divided_by_nothing() -> None:
    scales = Scales()
    scales.add(("a",), [2.0, 2.0])
    assert scales.standardized(("a",), [2.0, 5.0]) == [0.0, 3.0]
