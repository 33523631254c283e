"""How leaderboards of real LLMs agree with counted traits.

A leaderboard holds all that suites leave out: small differences, and the part of a score that no criterion changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from statistics import mean

import numpy as np
import numpy.typing as npt
from scipy.special import expit
from scipy.stats import kendalltau

from crm.criteria.traits import Trait

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TraitBoards:
    """Kendall's tau, in [-1, 1], between leaderboards of one trait; each a mean over pairs of wordings."""

    trait: str
    opposite: float
    """Of a wording for more and one for less: -1 is a judge that reverses the ranking."""
    truth: float
    """Of a wording's ranking and that of the counts."""
    same: float
    """Of two wordings for one side."""
    mixed: float
    """As ``truth``, with the mean over all wordings of a side less that of the opposite side for the score."""
    ceiling: float
    """Of the counts on these queries and the counts on others: what a finite number of queries allows."""


def win_rates(scores: Floats, baseline: int) -> Floats:
    """(M,) mean probability that a model's response is preferred to the baseline's, of ``scores`` (Q, M) in nats."""
    return np.asarray(np.nanmean(expit(scores - scores[:, [baseline]]), axis=0))


def true_rates(counts: Floats, trait: Trait, baseline: int) -> Floats:
    """(M,) share of queries on which a model has more of the trait than the baseline; a draw and no text are half.

    ``counts`` (Q, M) are the trait's measures; nearer than a tenth of its threshold is a draw.
    """
    gaps = (counts - counts[:, [baseline]]) / trait.measure.clear
    return np.asarray(np.where(np.isnan(gaps) | (np.abs(gaps) < 0.1), 0.5, gaps > 0).mean(axis=0))


def trait_boards(
    trait: Trait, more: Floats, less: Floats, counts: Floats, others: Floats, baseline: int
) -> TraitBoards:
    """From scores ``more`` and ``less`` (W, Q, M) under W wordings each; counts here (Q, M) and elsewhere (R, M)."""
    boards = {sign: [win_rates(scores, baseline) for scores in side] for sign, side in ((1, more), (-1, less))}
    truth = true_rates(counts, trait, baseline)
    both = win_rates(more.mean(axis=0) - less.mean(axis=0), baseline)
    return TraitBoards(
        trait.name,
        opposite=mean(_tau(one, other) for one in boards[1] for other in boards[-1]),
        truth=mean(sign * _tau(board, truth) for sign, side in boards.items() for board in side),
        same=mean(_tau(*pair) for side in boards.values() for pair in combinations(side, 2)),
        mixed=_tau(both, truth),
        ceiling=_tau(truth, true_rates(others, trait, baseline)),
    )


def _tau(one: Floats, other: Floats) -> float:
    """Kendall's tau-b; 0 where a ranking has no order."""
    found = float(kendalltau(one, other).statistic)
    return 0.0 if np.isnan(found) else found
