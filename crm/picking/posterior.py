"""How somebody chooses between two answers, weights of criteria from picks, and the rankings that follow.

A choice is left, right or "same" (Rao and Kupper 1967): with utility difference d, left has sigmoid(d - SAME) and right
sigmoid(-d - SAME); now and then (LAPSES) a person picks anything. The posterior is a normal around the most probable
weights (Laplace) under a sparse prior (automatic relevance determination; Bishop and Tipping 2000).
Letters: N picks, K criteria, S draws of weights, Q queries, M models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from crm.picking.criteria import Contrasts, PoolEntry
from crm.report.statistics import Floats, Indices

SAME = 1.0
"""Half the width, in log-odds, of the band in which two answers are the same to a person of whom nothing is known."""
BELIEVED = 2
"""Picks that outweigh it: who never picks "same" has no band, and their picks say less than it would have them say."""
LAPSES = 0.05
"""Share of picks that say nothing."""
SHARPNESS = 2.0
"""How much more surely people name the reason than their pick follows it: they know what they looked at."""
CHOICES = ("left", "same", "right")
SHAPE, RATE = 0.25, 0.003
"""Of the gamma prior of a weight's precision: with nothing known a weight is a Student's t of half a degree of freedom
and scale 0.11, so that most are nearly nothing and one in five is beyond 1."""
LARGEST = 3.0
"""Standard deviation of a weight that matters as much as any may: at a usual difference, 19 picks of 20."""
ROUNDS, CLOSE, LONGEST = 50, 1e-3, 2.0
"""Steps at most, the change of a weight that is none, and the most that it changes in a step."""
SURE = 0.975
"""Probability of a weight's sign from which a criterion is named: its 95 % limits exclude 0."""
LEAST = 0.25
"""Log-odds for one standard deviation below which a criterion does not matter."""
RANKING_DRAWS = 64
MAYBE_FIRST = 0.05
"""A model that is first in fewer of the draws is not first."""


@dataclass(frozen=True)
class Evidence:
    """Picks as arrays: ``differences`` (N, K) of left less right, and ``choices`` (N,), places in `CHOICES`.

    ``shown`` (N, K) flags the criteria that were offered as reasons, and ``reasons`` (N,) the one that was taken; -1:
    none was taken of those that were offered.
    """

    differences: Floats
    choices: Indices
    shown: Floats
    reasons: Indices

    def __len__(self) -> int:
        return len(self.choices)

    @property
    def band(self) -> float:
        """As `SAME`, of this person: by how often they pick it."""
        usual = BELIEVED * np.tanh(SAME / 2)
        share = ((self.choices == CHOICES.index("same")).sum() + usual) / (len(self) + BELIEVED)
        return float(2 * np.arctanh(share))

    def rows(self, kept: Indices | np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Evidence:
        """Of some of the picks."""
        return Evidence(self.differences[kept], self.choices[kept], self.shown[kept], self.reasons[kept])


def probabilities(utility: Floats, band: float = SAME) -> Floats:
    """(..., 3) in the order of `CHOICES` for utility differences (...), lapses among them."""
    left, right = special.expit(utility - band), special.expit(-utility - band)
    return np.asarray(LAPSES / 3 + (1 - LAPSES) * np.stack((left, 1 - left - right, right), axis=-1))


def slopes(utility: Floats, band: float) -> Floats:
    """(..., 3): derivatives of `probabilities` by the utility difference."""
    left, right = special.expit(utility - band), special.expit(-utility - band)
    rising, falling = left * (1 - left), -right * (1 - right)
    return np.asarray((1 - LAPSES) * np.stack((rising, -rising - falling, falling), axis=-1))


def reason_probabilities(weights: Floats, evidence: Evidence) -> Floats:
    """(N, K + 1): of each criterion as the reason of a pick, and last of none; 0 where it was not offered.

    A criterion is taken the likelier, the more it speaks for the answer that was picked; none is as likely as one that
    says nothing.
    """
    spoken = _spoken(evidence) * weights
    offered = np.where(evidence.shown > 0, spoken, -np.inf)
    return np.asarray(special.softmax(np.column_stack((offered, np.zeros(len(evidence)))), axis=1))


def log_likelihood(weights: Floats, evidence: Evidence) -> tuple[float, Floats]:
    """Of all picks and reasons, and its gradient (K,)."""
    utility = evidence.differences @ weights
    every, place = np.arange(len(evidence)), evidence.choices
    found = probabilities(utility, evidence.band)[every, place]
    gradient = evidence.differences.T @ (slopes(utility, evidence.band)[every, place] / found)
    known = _known(evidence)
    if not known.any():
        return float(np.log(found).sum()), gradient
    part = evidence.rows(known)
    spoken = _spoken(part)
    chances = reason_probabilities(weights, part)
    taken = chances[np.arange(len(part)), part.reasons]
    picked = np.eye(chances.shape[1])[part.reasons][:, :-1]
    gradient = gradient + (spoken * (picked - chances[:, :-1])).sum(axis=0)
    return float(np.log(found).sum() + np.log(taken).sum()), gradient


def information(weights: Floats, evidence: Evidence) -> Floats:
    """(K, K) Fisher information of all picks and reasons; never negative, whatever was picked."""
    utility = evidence.differences @ weights
    per_pick = (slopes(utility, evidence.band) ** 2 / probabilities(utility, evidence.band)).sum(axis=-1)
    found = evidence.differences.T @ (per_pick[:, None] * evidence.differences)
    known = _known(evidence)
    if known.any():
        part = evidence.rows(known)
        spoken = _spoken(part)
        taken = reason_probabilities(weights, part)[:, :-1] * spoken
        found = found + np.diag((taken * spoken).sum(axis=0)) - taken.T @ taken
    return np.asarray(found)


def _spoken(evidence: Evidence) -> Floats:
    """(N, K): how much a weight of 1 would speak for the answer that was picked; 0 for "same"."""
    return np.asarray(SHARPNESS * (1.0 - evidence.choices)[:, None] * evidence.differences)


def _known(evidence: Evidence) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """(N,): were reasons offered, and is there a side that they speak for?"""
    return np.asarray((evidence.shown > 0).any(axis=1) & (evidence.choices != CHOICES.index("same")))


@dataclass(frozen=True)
class Posterior:
    """Weights are log-odds for a difference of one standard deviation. ``mean`` (K,), ``covariance`` (K, K)."""

    mean: Floats
    covariance: Floats

    def draw(self, count: int, rng: np.random.Generator) -> Floats:
        """(count, K) weights."""
        return np.asarray(rng.multivariate_normal(self.mean, self.covariance, size=count, method="cholesky"))

    def draw_far(self, count: int, rng: np.random.Generator) -> Floats:
        """(count, K) weights of which now and then one is far out, as the sparse prior has it and a normal has not."""
        away = self.draw(count, rng) - self.mean
        shape = SHAPE + 0.5
        return np.asarray(self.mean + away / np.sqrt(rng.gamma(shape, 1 / shape, size=away.shape)))


def fit(evidence: Evidence, prior: Floats, sparse: bool = True) -> Posterior:
    """The posterior of K weights whose prior means are ``prior`` (K,); with no picks it is the prior's normal.

    Without ``sparse`` the prior is wide: each weight matters.
    """
    weights, precision = prior.copy(), np.full(len(prior), SHAPE / RATE if sparse else LARGEST**-2)
    covariance = np.diag(1 / precision)
    for _ in range(ROUNDS if len(evidence) else 0):
        covariance = np.asarray(np.linalg.inv(information(weights, evidence) + np.diag(precision)), dtype=np.float64)
        _, gradient = log_likelihood(weights, evidence)
        step = covariance @ (gradient - precision * (weights - prior))
        weights = weights + np.clip(step, -LONGEST, LONGEST)
        if sparse:
            precision = (SHAPE + 0.5) / (RATE + ((weights - prior) ** 2 + np.diag(covariance)) / 2)
            precision = np.maximum(precision, LARGEST**-2)
        if np.abs(step).max() < CLOSE:
            break
    return Posterior(weights, (covariance + covariance.T) / 2)


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
    def maybe_first(self) -> tuple[int, ...]:
        """Models that are first in `MAYBE_FIRST` of the draws or more, the likeliest first."""
        share = np.bincount(self.rates.argmax(axis=1), minlength=self.rates.shape[1]) / len(self.rates)
        return tuple(place for place in np.argsort(-share, kind="stable").tolist() if share[place] >= MAYBE_FIRST)


def personal_ranking(
    contrasts: Contrasts, posterior: Posterior, baseline: int, rng: np.random.Generator
) -> PersonalRanking:
    """The ranking of all models for weights drawn from ``posterior``."""
    rates, errors = win_rates(contrasts, posterior.draw(RANKING_DRAWS, rng), baseline)
    return PersonalRanking(rates, np.clip(rates + errors * rng.standard_normal(rates.shape), 0.0, 1.0))


def win_rates(contrasts: Contrasts, weights: Floats, baseline: int) -> tuple[Floats, Floats]:
    """Win rates (S, M) for weights (S, K), and their standard errors over the queries `Contrasts.ranked_on`.

    A response that was not read has lost.
    """
    scores = contrasts.values[contrasts.ranked_on(baseline)] @ weights.T  # (Q, M, S)
    wins = np.nan_to_num(special.expit(scores - scores[:, [baseline]]))
    errors = wins.std(axis=0, ddof=1) / np.sqrt(len(wins)) if len(wins) > 1 else np.zeros(wins.shape[1:])
    return np.asarray(wins.mean(axis=0).T), np.asarray(errors.T)


def expected_tau(rates: Floats) -> float:
    """Mean Kendall's tau between two of the rankings by ``rates`` (S, M): 1 where all of them agree."""
    upper = np.triu_indices(rates.shape[1], k=1)
    signs = np.sign(rates[:, upper[0]] - rates[:, upper[1]])
    agreement = signs @ signs.T / max(len(upper[0]), 1)
    return float((agreement.sum() - np.trace(agreement)) / max(len(rates) * (len(rates) - 1), 1))


@dataclass(frozen=True, slots=True)
class WeightedCriterion:
    """``text`` as a judge reads it; ``weight``, above 0, and its 95 % limits."""

    text: str
    weight: float
    low: float
    high: float


def weighted_criteria(posterior: Posterior, entries: Sequence[PoolEntry]) -> list[WeightedCriterion]:
    """Those of K ``entries`` that matter, by weight; of an entry with a weight below 0 it is the opposite."""
    found, deviations = [], np.sqrt(np.diag(posterior.covariance)).tolist()
    for entry, mean, deviation in zip(entries, posterior.mean.tolist(), deviations, strict=True):
        sure, size = float(special.ndtr(abs(mean) / deviation)), abs(mean)
        if sure >= SURE and size >= LEAST:
            text, half = entry.like if mean > 0 else entry.opposite, float(special.ndtri(0.975)) * deviation
            found.append(WeightedCriterion(text, size, size - half, size + half))
    return sorted(found, key=lambda criterion: -criterion.weight)
