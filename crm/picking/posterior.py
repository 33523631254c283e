"""What picks say of a person. In: evidence, what they said before. Out: weights of criteria, and how sure they are.

A normal around the most probable weights (Laplace). The prior is sparse: each weight has a precision of its own, drawn
anew from what is known of the weight (automatic relevance determination; MacKay 1992, in its variational form of Bishop
and Tipping 2000), so that most criteria stay at nothing and a few may grow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crm.picking.choice_model import Evidence, information, log_likelihood
from crm.report.statistics import Floats

SHAPE, RATE = 0.25, 0.003
"""Of the gamma prior of a weight's precision: with nothing known a weight is a Student's t of half a degree of freedom
and scale 0.11, so that most are nearly nothing and one in five is beyond 1."""
LARGEST = 3.0
"""Standard deviation of a weight that matters as much as any may: at a usual difference, 19 picks of 20."""
ROUNDS, CLOSE, LONGEST = 50, 1e-3, 2.0
"""Steps at most, the change of a weight that is none, and the most that it changes in a step."""


@dataclass(frozen=True)
class Posterior:
    """Weights are log-odds for a difference of one standard deviation. ``mean`` (K,), ``covariance`` (K, K)."""

    mean: Floats
    covariance: Floats

    @property
    def deviation(self) -> Floats:
        """(K,) standard deviations."""
        return np.asarray(np.sqrt(np.diag(self.covariance)))

    def draw(self, count: int, rng: np.random.Generator) -> Floats:
        """(count, K) weights."""
        return np.asarray(rng.multivariate_normal(self.mean, self.covariance, size=count, method="cholesky"))

    def draw_far(self, count: int, rng: np.random.Generator) -> Floats:
        """(count, K) weights of which now and then one is far out, as the sparse prior has it and a normal has not."""
        away = self.draw(count, rng) - self.mean
        shape = SHAPE + 0.5
        return np.asarray(self.mean + away / np.sqrt(rng.gamma(shape, 1 / shape, size=away.shape)))


def fit(evidence: Evidence, prior: Floats) -> Posterior:
    """The posterior of K weights whose prior means are ``prior`` (K,); with no picks it is the prior's normal."""
    weights, precision = prior.copy(), np.full(len(prior), SHAPE / RATE)
    covariance = np.diag(1 / precision)
    for _ in range(ROUNDS if len(evidence) else 0):
        covariance = np.asarray(np.linalg.inv(information(weights, evidence) + np.diag(precision)), dtype=np.float64)
        _, gradient = log_likelihood(weights, evidence)
        step = covariance @ (gradient - precision * (weights - prior))
        weights = weights + np.clip(step, -LONGEST, LONGEST)
        precision = (SHAPE + 0.5) / (RATE + ((weights - prior) ** 2 + np.diag(covariance)) / 2)
        precision = np.maximum(precision, LARGEST**-2)
        if np.abs(step).max() < CLOSE:
            break
    return Posterior(weights, (covariance + covariance.T) / 2)
