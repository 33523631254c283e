"""The posterior beside a general optimizer; it is sparse, and knows what it does not know."""

from __future__ import annotations

import numpy as np
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
        shuffled = fit(evidence.rows(order), nothing)
        np.testing.assert_allclose(shuffled.mean, found.mean, atol=1e-9)
        assert (np.linalg.eigvalsh(found.covariance) > 0).all(), "something stays unknown in every direction"
