"""Contrasts by hand: halves of differences in units of pairs; what nobody could read; criteria that are one."""

from __future__ import annotations

import numpy as np
import pytest

from crm.picking.criteria import contrasts, joined


def scores(seed: int, criteria: int = 3, queries: int = 40, models: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(criteria, queries, models)).astype(np.float32)


def test_a_pair_differs_by_one_in_the_mean_square() -> None:
    found = contrasts(7 * scores(1), scores(2))
    gaps = [found.values[:, one] - found.values[:, other] for one in range(5) for other in range(one)]
    np.testing.assert_allclose(np.square(gaps).mean(axis=(0, 1)), 1, rtol=1e-6)
    raw = (7 * scores(1).astype(float) - scores(2)).transpose(1, 2, 0) / 2
    np.testing.assert_allclose(found.values * found.units, raw, rtol=1e-5)
    np.testing.assert_allclose(found.difference(3, 0, 4), found.values[3, 0] - found.values[3, 4])


def test_a_criterion_in_which_nothing_differs_is_zero_and_what_was_not_read_is_nan() -> None:
    likes, opposites = scores(1), scores(2)
    likes[1] = opposites[1] = 3.0
    likes[:, 4, 2] = np.nan
    found = contrasts(likes, opposites)
    assert np.isnan(found.values[4, 2, [0, 2]]).all() and np.isnan(found.values[4, 2, 1])
    assert (np.delete(found.values[..., 1], 4, axis=0) == 0).all()
    pairs = found.pairs(4000, np.random.default_rng(0))
    assert 3000 < len(pairs) < 4000
    assert not ((pairs[:, 0] == 4) & ((pairs[:, 1] == 2) | (pairs[:, 2] == 2))).any()
    assert (pairs[:, 1] != pairs[:, 2]).all()


def test_what_was_typed_takes_the_place_of_what_is_alike_or_the_opposite() -> None:
    pool = contrasts(scores(1), scores(2))
    typed = contrasts(-2 * scores(1)[1:2], -2 * scores(2)[1:2])
    both, kept = joined(typed, pool)
    assert kept.tolist() == [0, 2]
    np.testing.assert_allclose(both.values[..., 0], -pool.values[..., 1], atol=1e-5)
    np.testing.assert_array_equal(both.values[..., 1:], pool.values[..., [0, 2]])
    assert both.units.shape == (3,)
    assert both.units[0] == pytest.approx(2 * pool.units[1], rel=1e-5)
