"""How somebody chooses between two answers.

A choice is left, right or "same" (Rao and Kupper 1967): with utility difference d, left has sigmoid(d - SAME) and right
sigmoid(-d - SAME). Now and then (LAPSES) a person picks anything. Letters: N picks, K criteria, R reasons shown.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from crm.report.statistics import Floats, Indices

SAME = 1.0
"""Half the width, in log-odds, of the band in which two answers are the same to a person."""
LAPSES = 0.05
"""Share of picks that say nothing."""
SHARPNESS = 2.0
"""How much more surely people name the reason than their pick follows it: they know what they looked at."""
CHOICES = ("left", "same", "right")


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

    def without(self, picks: Indices) -> Evidence:
        """All picks but some."""
        kept = np.ones(len(self), dtype=np.bool_)
        kept[picks] = False
        return _of(self, kept)


def probabilities(utility: Floats) -> Floats:
    """(..., 3) in the order of `CHOICES` for utility differences (...), lapses among them."""
    left, right = special.expit(utility - SAME), special.expit(-utility - SAME)
    return np.asarray(LAPSES / 3 + (1 - LAPSES) * np.stack((left, 1 - left - right, right), axis=-1))


def slopes(utility: Floats) -> Floats:
    """(..., 3): derivatives of `probabilities` by the utility difference."""
    left, right = special.expit(utility - SAME), special.expit(-utility - SAME)
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
    found = probabilities(utility)[every, place]
    gradient = evidence.differences.T @ (slopes(utility)[every, place] / found)
    known = _known(evidence)
    if not known.any():
        return float(np.log(found).sum()), gradient
    part = _of(evidence, known)
    spoken = _spoken(part)
    chances = reason_probabilities(weights, part)
    taken = chances[np.arange(len(part)), part.reasons]
    picked = np.eye(chances.shape[1])[part.reasons][:, :-1]
    gradient = gradient + (spoken * (picked - chances[:, :-1])).sum(axis=0)
    return float(np.log(found).sum() + np.log(taken).sum()), gradient


def information(weights: Floats, evidence: Evidence) -> Floats:
    """(K, K) Fisher information of all picks and reasons; never negative, whatever was picked."""
    utility = evidence.differences @ weights
    per_pick = (slopes(utility) ** 2 / probabilities(utility)).sum(axis=-1)
    found = evidence.differences.T @ (per_pick[:, None] * evidence.differences)
    known = _known(evidence)
    if known.any():
        part = _of(evidence, known)
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


def _of(evidence: Evidence, rows: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Evidence:
    return Evidence(evidence.differences[rows], evidence.choices[rows], evidence.shown[rows], evidence.reasons[rows])
