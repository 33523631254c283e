"""Intervals, calibration, Holm and tau against sums by hand, SciPy, statsmodels, symmetries, simulated coverage."""

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from crm.report import statistics as s


def test_cluster_interval_equals_the_sums_by_hand() -> None:
    values, clusters = [1, 1, 0, 0.5, 1], ["p", "p", "q", "q", "r"]
    mean = 3.5 / 5
    residuals = [(1 - mean) * 2, (0 - mean) + (0.5 - mean), 1 - mean]
    error = math.sqrt(sum(r * r for r in residuals) * 3 / 2) / 5
    size = min(mean * (1 - mean) / error**2, 5)
    t = stats.t.ppf(0.975, 2)
    # The limits are the roots of (mean - x)^2 = t^2 x (1 - x) / size.
    low, high = sorted(np.roots([1 + t * t / size, -2 * mean - t * t / size, mean * mean]))
    got = s.cluster_interval(values, clusters)
    assert (got.mean, got.n, got.clusters) == (mean, 5, 3)
    assert [got.standard_error, got.low, got.high] == pytest.approx([error, low, high])


def test_all_correct_gives_wilson_at_the_number_of_clusters() -> None:
    got = s.cluster_interval([1.0] * 40, [i // 2 for i in range(40)])
    wilson = stats.binomtest(20, 20).proportion_ci(method="wilson")
    assert (got.mean, got.high, got.standard_error) == (1.0, 1.0, 0.0)
    assert got.low == pytest.approx(wilson.low)


@settings(derandomize=True, deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 5)), min_size=1, max_size=30))
def test_interval_holds_its_mean_mirrors_and_ignores_row_order(rows: list[tuple[float, int]]) -> None:
    values, clusters = zip(*rows, strict=True)
    got = s.cluster_interval(values, clusters)
    mirrored = s.cluster_interval([1 - value for value in values], clusters)
    turned = s.cluster_interval(values[::-1], clusters[::-1])
    assert 0 <= got.low <= got.mean <= got.high <= 1
    assert got.high > got.low
    assert [mirrored.low, mirrored.high] == pytest.approx([1 - got.high, 1 - got.low])
    assert [turned.low, turned.high] == pytest.approx([got.low, got.high])


def test_mean_interval_equals_scipy() -> None:
    values = np.random.default_rng(0).normal(2, 3, 25)
    got = s.mean_interval(values)
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert [got.mean, got.low, got.high] == pytest.approx([values.mean(), low, high])
    # Each value twice in its cluster carries no more information than once.
    twice = s.mean_interval(np.repeat(values, 2), np.repeat(np.arange(25), 2).tolist())
    assert [twice.low, twice.high] == pytest.approx([low, high])
    assert math.isnan(s.mean_interval([3.0]).high)


def test_holm_by_hand_and_never_below_the_raw_value() -> None:
    assert s.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert s.holm([0.6, 0.7]) == pytest.approx([1.0, 1.0])
    assert s.holm([]).tolist() == []


def test_losses_by_hand() -> None:
    logits, labels = [math.log(3), math.log(3), 0.0], [1, 0, 1]
    assert s.correctness(logits, labels) == pytest.approx([1, 0, 0.5])
    assert s.log_loss(logits, labels) == pytest.approx([-math.log(0.75), -math.log(0.25), math.log(2)])
    assert s.brier(logits, labels) == pytest.approx([0.0625, 0.5625, 0.25])
    assert s.log_loss([-800.0], [1]) == pytest.approx([800.0])


def test_calibration_by_hand_and_blind_to_names() -> None:
    # Confidence 0.75 (bin [0.75, 0.8)): two of four right, gap 0.25. Confidence 0.5: half right, gap 0.
    logits, labels = [math.log(3)] * 4 + [0.0] * 4, [1, 1, 0, 0, 1, 0, 1, 0]
    assert s.expected_calibration_error(logits, labels) == pytest.approx(0.125)
    swapped = s.expected_calibration_error([-x for x in logits], [1 - y for y in labels])
    assert swapped == pytest.approx(0.125)
    assert s.expected_calibration_error([900.0], [1]) == pytest.approx(0)


@pytest.mark.parametrize(
    ("first", "second", "tau"),
    [
        ([3, 2, 1], [3, 2, 1], 1),
        ([3, 2, 1], [-3, -2, -1], -1),
        ([3, 2, 1], [2, 3, 1], 1 / 3),  # of three pairs one is turned: (2 - 1) / 3
        ([3, 2, 1], [1, 1, 1], math.nan),
        ([3, 2], [2, 3], -1),
    ],
)
def test_tau_by_hand(first: list[float], second: list[float], tau: float) -> None:
    assert s.rank_correlation(np.array(first), np.array(second)) == pytest.approx(tau, nan_ok=True)


def test_the_bootstrap_is_scipys() -> None:
    data = np.random.default_rng(10).gamma(1, 2, 80)
    got = s.bootstrap_interval(lambda i: float(np.median(data[i])), 80, 1, resamples=5000)
    drawn = stats.bootstrap((data,), np.median, method="percentile", n_resamples=5000, rng=np.random.default_rng(2))
    low, high = drawn.confidence_interval
    assert [got.low, got.high] == pytest.approx([low, high], abs=0.1 * (high - low))
    assert got.standard_error == pytest.approx(drawn.standard_error, rel=0.06)
