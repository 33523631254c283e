"""Choices and the posterior by hand, by finite differences and beside a general optimizer."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import expit

from crm.picking.posterior import (
    CHOICES,
    LAPSES,
    RATE,
    SAME,
    SHAPE,
    SHARPNESS,
    Evidence,
    fit,
    information,
    log_likelihood,
    probabilities,
    reason_probabilities,
)
from crm.report.statistics import Floats


@pytest.fixture
def evidence() -> Evidence:
    """Six picks by four criteria; three reasons asked for, one of them declined, one after "same"."""
    rng = np.random.default_rng(3)
    shown = np.zeros((6, 4))
    shown[1, [0, 2]] = shown[3, [1, 2, 3]] = shown[4, [0, 1]] = 1
    reasons = np.array([-1, 2, -1, -1, -1, -1])
    return Evidence(rng.normal(size=(6, 4)), np.array([0, 2, 1, 0, 1, 2]), shown, reasons)


def test_probabilities_are_rao_and_kupper_with_lapses() -> None:
    left, same, right = probabilities(np.array(1.7))
    assert left == pytest.approx(LAPSES / 3 + (1 - LAPSES) * expit(1.7 - SAME))
    assert right == pytest.approx(LAPSES / 3 + (1 - LAPSES) * expit(-1.7 - SAME))
    assert left + same + right == pytest.approx(1)
    assert probabilities(np.array(0.0))[0] == probabilities(np.array(0.0))[2]
    assert probabilities(np.array(50.0)).min() == pytest.approx(LAPSES / 3), "nobody is ever certain"
    assert CHOICES[int(probabilities(np.array(0.0)).argmax())] == "same"


def test_a_reason_is_the_likelier_the_more_it_speaks_for_the_pick(evidence: Evidence) -> None:
    weights = np.array([0.5, -1.0, 2.0, 0.1])
    chances = reason_probabilities(weights, evidence)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    spoken = np.exp(-SHARPNESS * evidence.differences[1, [0, 2]] * weights[[0, 2]])  # the right answer was picked
    np.testing.assert_allclose(chances[1], [*(spoken[:1] / (1 + spoken.sum())), 0, spoken[1] / (1 + spoken.sum()), 0,
                                            1 / (1 + spoken.sum())])  # fmt: skip


def test_the_gradient_is_that_of_the_likelihood(evidence: Evidence) -> None:
    weights = np.array([0.3, -0.7, 1.1, 0.0])
    _, gradient = log_likelihood(weights, evidence)
    numeric = approx_fprime(weights, lambda at: log_likelihood(at, evidence)[0], 1e-7)
    np.testing.assert_allclose(gradient, numeric, atol=1e-5)


def test_information_is_the_mean_square_of_the_gradient_over_what_may_be_picked() -> None:
    """Every choice of one pair, and every reason, with their probabilities."""
    gap, weights = np.array([[0.8, -1.2, 0.4]]), np.array([0.9, 0.2, -0.5])
    shown = np.array([[1.0, 1.0, 0.0]])
    expected = np.zeros((3, 3))
    for choice in range(3):
        for reason in (0, 1, -1):
            one = Evidence(gap, np.array([choice]), shown, np.array([reason]))
            chance = probabilities(gap[0] @ weights)[choice]
            if choice != CHOICES.index("same"):
                chance *= reason_probabilities(weights, one)[0, reason]
            elif reason != -1:
                continue
            _, gradient = log_likelihood(weights, one)
            expected += chance * np.outer(gradient, gradient)
    found = sum(
        probabilities(gap[0] @ weights)[choice]
        * (information(weights, Evidence(gap, np.array([choice]), shown, np.array([-1]))))
        for choice in range(3)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-9)


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
