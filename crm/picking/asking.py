"""Which pair to show next. In: a posterior, contrasts of a bank. Out: the pair whose answer would tell most.

Expected information about the weights (BALD; Houlsby et al. 2011): how unsure the answer is, less how unsure it would
be if the weights were known. Letters: C pairs, S draws, K criteria.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from crm.picking.choice_model import probabilities
from crm.picking.contrasts import Contrasts
from crm.picking.posterior import Posterior
from crm.report.statistics import Floats, Indices

DRAWS = 64
REASONS = 5
"""Criteria that are offered as the reason of a pick."""


def most_telling(pairs: Indices, contrasts: Contrasts, posterior: Posterior, rng: np.random.Generator) -> int:
    """Place in ``pairs`` (C, 3) of the one with the largest expected information."""
    return int(np.argmax(expected_information(contrasts.gaps(pairs), posterior.draw_far(DRAWS, rng))))


def expected_information(differences: Floats, weights: Floats) -> Floats:
    """(C,) nats that the answer to each pair (C, K) tells about the weights (S, K)."""
    chances = probabilities(differences @ weights.T)
    return np.asarray(special.entr(chances.mean(axis=1)).sum(axis=-1) - special.entr(chances).sum(axis=-1).mean(axis=1))


def reasons_to_offer(difference: Floats, posterior: Posterior) -> Indices:
    """Places of at most `REASONS` criteria: those that may have mattered most, by their size and what is known."""
    likely = np.abs(difference) * np.sqrt(posterior.mean**2 + np.diag(posterior.covariance))
    order = np.argsort(-likely, kind="stable")[:REASONS]
    return np.asarray(order[likely[order] > 0])
