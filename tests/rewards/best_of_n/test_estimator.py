"""The estimator against enumeration over all subsets, with ties and unread responses; bands cover what they claim."""

from __future__ import annotations

from itertools import combinations
from math import comb, exp, log

import numpy as np
import pytest
from crm.rewards.best_of_n.estimator import best_of_k, expected, first_k, kl_bound, reached, sizes, soft_best_of_k
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.special import xlogy

from crm.report.statistics import mean_interval

NAN = float("nan")
POOLS = st.lists(st.tuples(st.sampled_from([0.0, 1.0, 2.5, NAN]), st.floats(-5, 5)), min_size=1, max_size=7)


def by_enumeration(scores: list[float], gold: list[float], k: int) -> float:
    """The mean over all subsets of k that were read; equals share the pick."""
    read = [place for place, score in enumerate(scores) if score == score]
    if k > len(read):
        return NAN
    found = []
    for subset in combinations(read, k):
        top = max(scores[place] for place in subset)
        found.append(np.mean([gold[place] for place in subset if scores[place] == top]))
    return float(np.mean(found))


@settings(
    derandomize=True, deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(POOLS)
def test_it_equals_enumeration_with_ties_and_unread_responses(pool: list[tuple[float, float]]) -> None:
    scores, gold = (list(column) for column in zip(*pool, strict=True))
    ks = range(1, len(pool) + 1)
    found = expected(best_of_k(np.array([scores]), ks), np.array([gold]))[0]
    for k, value in zip(ks, found, strict=True):
        assert value == pytest.approx(by_enumeration(scores, gold, k), abs=1e-12, nan_ok=True)


def test_each_rank_has_the_weight_of_the_subsets_that_it_leads() -> None:
    picked = best_of_k(np.arange(128.0)[None], (1, 2, 64, 128))[0]
    for row, k in zip(picked, (1, 2, 64, 128), strict=True):
        assert row == pytest.approx([comb(place, k - 1) / comb(128, k) for place in range(128)], rel=1e-9)
    assert picked.sum(axis=1) == pytest.approx(1)


def test_what_may_be_picked_and_is_not_known_makes_a_value_unknown() -> None:
    picked = best_of_k(np.array([[1.0, 2.0, 3.0]]), (1, 2, 3))
    assert np.isnan(expected(picked, np.array([[NAN, 1.0, 2.0]]))[0]).tolist() == [True, False, False]


def test_the_first_k_is_one_response_in_the_order_of_the_file() -> None:
    picked = first_k(np.array([[1.0, NAN, 3.0, 3.0, 2.0]]), (1, 2, 3, 4, 5))[0]
    assert np.argmax(picked[:4], axis=1).tolist() == [0, 2, 2, 2]
    assert (picked[:4].max(axis=1) == 1).all() and np.isnan(picked[4]).all()


def test_soft_best_of_k_is_the_mean_softmax_over_subsets() -> None:
    scores, gold = np.array([[0.0, 1.0, NAN, 2.0, 2.0]]), np.array([[1.0, -2.0, 9.0, 3.0, 0.5]])
    found = expected(soft_best_of_k(scores, (1, 2, 4), temperature=0.7, seed=1, draws=40_000), gold)[0]
    for k, value in zip((1, 2, 4), found, strict=True):
        means = []
        for subset in map(list, combinations([0, 1, 3, 4], k)):
            powers = np.array([exp(score / 0.7) for score in scores[0, subset]])
            means.append(float(powers @ gold[0, subset] / powers.sum()))
        assert value == pytest.approx(np.mean(means), abs=0.02 if k == 2 else 1e-12)


def test_soft_best_of_k_ends_in_the_best_of_k_and_depends_on_the_seed_alone() -> None:
    scores = np.random.default_rng(0).normal(size=(2, 6))
    cold = soft_best_of_k(scores, (6,), temperature=1e-4, seed=1)
    assert cold == pytest.approx(best_of_k(scores, (6,)))
    one, again, other = (soft_best_of_k(scores, (3,), temperature=1, seed=seed, draws=4) for seed in (1, 1, 2))
    assert (one == again).all() and (one != other).any()
    with pytest.raises(ValueError, match=r"temperature=0: expected a number above 0"):
        soft_best_of_k(scores, (3,), temperature=0, seed=1)


@pytest.mark.parametrize(
    ("largest", "shown"), [(1, (1,)), (2, (1, 2)), (30, (1, 2, 4, 8, 16, 30)), (64, (1, 2, 4, 8, 16, 32, 64))]
)
def test_sizes_are_powers_of_two_and_the_largest(largest: int, shown: tuple[int, ...]) -> None:
    assert sizes(largest) == shown


def test_few_queries_with_few_responses_do_not_shorten_the_curve() -> None:
    known = np.zeros((20, 8))
    known[0, 2:] = NAN
    assert reached(known) == 8
    known[1:4, 5:] = NAN
    assert reached(known) == 5
    assert reached(np.full((2, 3), NAN)) == 1


def test_the_kl_bound_is_what_ranks_alone_give() -> None:
    """KL of the best of k from one draw, by integration over ranks u in [0, 1]: the density is k u^(k-1)."""
    u = (np.arange(100_000) + 0.5) / 100_000
    for k in (1, 2, 8, 64):
        density = k * u ** (k - 1)
        assert kl_bound(k) == pytest.approx(np.mean(xlogy(density, density)), abs=1e-3)
    assert kl_bound(2) == pytest.approx(log(2) - 0.5)


def test_bands_cover_the_true_value() -> None:
    """A proxy that is gold and noise, as well as an effect of the query; truth from a million draws of a pool of k."""
    random = np.random.default_rng(1)
    gold = random.normal(size=(250_000, 4))
    best = np.take_along_axis(gold, (gold + random.normal(size=gold.shape)).argmax(axis=1)[:, None], axis=1)
    truth, covered, runs = float(best.mean()), 0, 1200
    for _ in range(runs):
        gold = random.normal(size=(25, 12)) + 0.5 * random.normal(size=(25, 1))
        picked = best_of_k(gold + random.normal(size=gold.shape), (4,))
        interval = mean_interval(expected(picked, gold)[:, 0], list(range(25)))
        covered += interval.low <= truth <= interval.high
    assert 0.93 < covered / runs < 0.97
