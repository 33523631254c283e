"""The posterior beside a general optimizer; it is sparse, and knows what it does not know."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from crm.picking.posterior import RATE, SHAPE, Evidence, fit, information, log_likelihood, probabilities
from crm.report.statistics import Floats


def picks(weights: Floats, count: int, seed: int) -> Evidence:
    rng = np.random.default_rng(seed)
    gaps = rng.normal(size=(count, len(weights)))
    chosen = np.array([rng.choice(3, p=chances) for chances in probabilities(gaps @ weights)])
    return Evidence(gaps, chosen, np.zeros(gaps.shape), np.full(count, -1))


def test_without_picks_it_is_what_was_typed() -> None:
    nothing = Evidence(np.zeros((0, 3)), np.zeros(0, dtype=int), np.zeros((0, 3)), np.zeros(0, dtype=int))
    found = fit(nothing, np.array([1.5, 0.0, 0.0]))
    np.testing.assert_array_equal(found.mean, [1.5, 0, 0])
    np.testing.assert_allclose(found.covariance, np.eye(3) * RATE / SHAPE)


def test_the_mean_is_the_most_probable_point_under_its_own_precisions() -> None:
    evidence, prior = picks(np.array([2.0, 0.0, -1.0]), 40, 1), np.array([0.0, 0.5, 0.0])
    found = fit(evidence, prior)
    spread = (found.mean - prior) ** 2 + np.diag(found.covariance)
    precision = (SHAPE + 0.5) / (RATE + spread / 2)

    def loss(weights: Floats) -> float:
        return 0.5 * float(precision @ (weights - prior) ** 2) - log_likelihood(weights, evidence)[0]

    best = minimize(loss, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9}).x
    np.testing.assert_allclose(found.mean, best, atol=0.01)
    expected = np.linalg.inv(information(found.mean, evidence) + np.diag(precision))
    np.testing.assert_allclose(found.covariance, expected, rtol=0.02)


def test_many_picks_tell_the_weights_and_leave_the_rest_at_nothing() -> None:
    truth = np.array([1.5, 0, 0, 0, -1.0, 0, 0, 0])
    found = fit(picks(truth, 600, 2), np.zeros(8))
    assert np.abs(found.mean - truth).max() < 0.3
    assert np.abs(found.mean[truth == 0]).max() < 0.15
    inside = np.abs(found.mean - truth) < 3 * found.deviation
    assert inside.all()


@pytest.mark.parametrize("wild", [1e3, 1e6])
def test_huge_differences_do_no_harm(wild: float) -> None:
    evidence = picks(np.array([1.0, -1.0]), 30, 4)
    found = fit(Evidence(evidence.differences * wild, *_rest(evidence)), np.zeros(2))
    assert np.isfinite(found.mean).all() and np.isfinite(found.covariance).all()


def _rest(evidence: Evidence) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return evidence.choices, evidence.shown, evidence.reasons


def test_sets_of_picks_mirror_and_have_no_order() -> None:
    """Whoever picks the other answer each time likes the opposite, and when a pick was made says nothing."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        evidence = picks(rng.normal(size=int(rng.integers(1, 6))), int(rng.integers(1, 40)), seed)
        nothing = np.zeros(evidence.differences.shape[1])
        found = fit(evidence, nothing)
        opposite = fit(Evidence(evidence.differences, 2 - evidence.choices, evidence.shown, evidence.reasons), nothing)
        np.testing.assert_allclose(opposite.mean, -found.mean, atol=1e-9)
        np.testing.assert_allclose(opposite.covariance, found.covariance, atol=1e-9)
        order = rng.permutation(len(evidence))
        shuffled = fit(Evidence(evidence.differences[order], evidence.choices[order], *_rest(evidence)[1:]), nothing)
        np.testing.assert_allclose(shuffled.mean, found.mean, atol=1e-9)
        assert (np.linalg.eigvalsh(found.covariance) > 0).all(), "something stays unknown in every direction"
