"""Rankings that know how unsure the weights are. In: contrasts of a bank, a posterior. Out: win rates and who is first.

Letters: S draws of weights, Q queries, M models, K criteria.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from crm.picking.contrasts import Contrasts
from crm.picking.posterior import Posterior
from crm.report.statistics import Floats

DRAWS = 64
MAYBE_FIRST = 0.05
"""A model that is first in fewer of the draws is not first."""


@dataclass(frozen=True)
class PersonalRanking:
    """Win rates against the baseline, a row a draw of the weights."""

    by_weights: Floats
    """(S, M) on the queries of the bank."""
    rates: Floats
    """(S, M) on queries like them: by so much more may they differ from what other queries would have told."""

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
    contrasts: Contrasts, posterior: Posterior, baseline: int, rng: np.random.Generator, draws: int = DRAWS
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
