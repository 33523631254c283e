"""Weights of criteria from picks, and rankings that know how unsure the weights are.

The posterior is a normal around the most probable weights (Laplace). The prior is sparse: each weight has a precision
of its own, drawn anew from what is known of the weight (automatic relevance determination; MacKay 1992, in its
variational form of Bishop and Tipping 2000), so that most criteria stay at nothing and a few may grow.
Letters: S draws of weights, Q queries, M models, K criteria.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from crm.picking.choice_model import Evidence, information, log_likelihood
from crm.picking.contrasts import Contrasts
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


RANKING_DRAWS = 64
MAYBE_FIRST = 0.05
"""A model that is first in fewer of the draws is not first."""


@dataclass(frozen=True)
class PersonalRanking:
    """Win rates against the baseline, a row a draw of the weights."""

    by_weights: Floats
    """(S, M) on the queries of the bank."""
    rates: Floats
    """(S, M) on queries like them: wider, as other queries would give other rates."""

    @property
    def mean(self) -> Floats:
        """(M,) win rates over what the weights may be."""
        return np.asarray(self.by_weights.mean(axis=0))

    @property
    def interval(self) -> tuple[Floats, Floats]:
        """(M,) and (M,): 95 % limits, of the weights and of the queries together."""
        low, high = np.quantile(self.rates, (0.025, 0.975), axis=0)
        return low, high

    @property
    def first(self) -> Floats:
        """(M,) share of the draws in which each model is first."""
        leaders = self.rates.argmax(axis=1)
        return np.asarray(np.bincount(leaders, minlength=self.rates.shape[1]) / len(self.rates))

    @property
    def maybe_first(self) -> tuple[int, ...]:
        """Models that may be first, the likeliest first."""
        order = np.argsort(-self.first, kind="stable").tolist()
        return tuple(place for place in order if self.first[place] >= MAYBE_FIRST)


def personal_ranking(
    contrasts: Contrasts, posterior: Posterior, baseline: int, rng: np.random.Generator, draws: int = RANKING_DRAWS
) -> PersonalRanking:
    """The ranking of all models for weights drawn from ``posterior``."""
    rates, errors = win_rates(contrasts, posterior.draw(draws, rng), baseline)
    return PersonalRanking(rates, np.clip(rates + errors * rng.standard_normal(rates.shape), 0.0, 1.0))


def win_rates(contrasts: Contrasts, weights: Floats, baseline: int) -> tuple[Floats, Floats]:
    """Win rates (S, M) for weights (S, K), and their standard errors over queries; what was not read counts as lost."""
    scores = contrasts.values @ weights.T  # (Q, M, S)
    readable = np.isfinite(scores[:, baseline, 0])
    wins = np.nan_to_num(special.expit(scores[readable] - scores[readable][:, [baseline]]))
    errors = wins.std(axis=0, ddof=1) / np.sqrt(len(wins)) if len(wins) > 1 else np.zeros(wins.shape[1:])
    return np.asarray(wins.mean(axis=0).T), np.asarray(errors.T)


def expected_tau(rates: Floats) -> float:
    """Mean Kendall's tau between two of the rankings by ``rates`` (S, M): 1 where all of them agree."""
    upper = np.triu_indices(rates.shape[1], k=1)
    signs = np.sign(rates[:, upper[0]] - rates[:, upper[1]])
    agreement = signs @ signs.T / max(len(upper[0]), 1)
    return float((agreement.sum() - np.trace(agreement)) / max(len(rates) * (len(rates) - 1), 1))
