"""Which pair to show next. In: a posterior, contrasts of a bank. Out: the pair whose answer would tell most.

Expected information about the weights (BALD; Houlsby et al. 2011): how unsure the answer is, less how unsure it would
be if the weights were known. Letters: C pairs, S draws, K criteria.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from crm.picking.choice_model import SHARPNESS, probabilities
from crm.picking.contrasts import Contrasts
from crm.picking.posterior import Posterior
from crm.report.statistics import Floats, Indices

DRAWS = 64
REASONS = 5
"""Criteria that are offered as the reason of a pick."""


def most_telling(
    pairs: Indices, contrasts: Contrasts, posterior: Posterior, rng: np.random.Generator, *, tells_why: bool
) -> int:
    """Place in ``pairs`` (C, 3) of the one with the largest expected information; a reason is an answer, too."""
    differences, weights = contrasts.gaps(pairs), posterior.draw_far(DRAWS, rng)
    expected = expected_information(differences, weights)
    if tells_why:
        expected = expected + information_of_reasons(differences, weights, offered(differences, posterior))
    return int(np.argmax(expected))


def expected_information(differences: Floats, weights: Floats) -> Floats:
    """(C,) nats that the answer to each pair (C, K) tells about the weights (S, K)."""
    chances = probabilities(differences @ weights.T)
    return np.asarray(special.entr(chances.mean(axis=1)).sum(axis=-1) - special.entr(chances).sum(axis=-1).mean(axis=1))


def information_of_reasons(differences: Floats, weights: Floats, places: Indices) -> Floats:
    """(C,) nats that the reason tells besides, where ``places`` (C, R) are offered once a side was picked."""
    gaps = np.take_along_axis(differences, places, axis=1)[:, None, :] * weights[:, places].transpose(1, 0, 2)
    sides = probabilities(differences @ weights.T)[..., (0, 2)]
    told = np.zeros(len(differences))
    for side, sign in enumerate((1.0, -1.0)):
        spoken = SHARPNESS * sign * gaps
        chances = special.softmax(np.concatenate((spoken, np.zeros((*spoken.shape[:2], 1))), axis=2), axis=2)
        picked = sides[..., side]
        share = picked / picked.sum(axis=1, keepdims=True)
        mixed = special.entr((share[..., None] * chances).sum(axis=1)).sum(axis=1)
        told += picked.mean(axis=1) * (mixed - (share * special.entr(chances).sum(axis=2)).sum(axis=1))
    return told


def offered(differences: Floats, posterior: Posterior) -> Indices:
    """(C, R) places of at most `REASONS` criteria that may matter most in each pair (C, K), the likeliest first."""
    likely = np.abs(differences) * np.sqrt(posterior.mean**2 + np.diag(posterior.covariance))
    return np.asarray(np.argsort(-likely, axis=1, kind="stable")[:, :REASONS])


def reasons_to_offer(difference: Floats, posterior: Posterior) -> Indices:
    """Of one pair (K,), those of `offered` in which the two responses differ."""
    places = offered(difference[None], posterior)[0]
    return np.asarray(places[difference[places] != 0])
