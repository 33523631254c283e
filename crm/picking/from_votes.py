"""What somebody likes, from votes that they have given.

Letters: N votes, K criteria.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from crm.model.late_reading import Conversation, LateReader
from crm.picking.criteria import PoolEntry, contrasts
from crm.picking.posterior import CHOICES, Evidence, WeightedCriterion, fit, information, log_likelihood
from crm.picking.session import foreseen
from crm.report.statistics import Floats
from crm.schema import Preference

CHOICE = {"a": "left", "tie": "same", "b": "right"}
PORTION = 64
"""Conversations between two steps of a progress bar."""
FLIPS = 999
"""Files of votes for random sides that a file is compared with."""
MOST_TIMES = 10.0
"""As many votes that might show something are a number; more are none."""


@dataclass(frozen=True)
class Taste:
    """``criteria`` that ``votes`` votes show; ``unread`` more were too long.

    Of ``asked`` votes for a side between responses that differ in them ``agreed`` are predicted, each by what others
    show. Where they show nothing clear,
    ``more`` might, if they speak as clearly; None: no number of votes.
    """

    criteria: tuple[WeightedCriterion, ...]
    votes: int
    unread: int
    agreed: int
    asked: int
    more: int | None


def taste_of(
    preferences: Sequence[Preference], reader: LateReader, pool: Sequence[PoolEntry], steps: Any = iter
) -> Taste:
    """The criteria of one person. Raises ``ValueError`` where no vote could be read."""
    talks = conversations(preferences)
    parts = [reader.responses(talks[start : start + PORTION]) for start in steps(range(0, len(talks), PORTION))]
    vectors = torch.cat(parts) if parts else torch.empty(0, reader.size)
    sides = ([getattr(entry, side) for entry in pool] for side in ("like", "opposite"))
    return shown_by(preferences, pool, *((reader.criterion_vectors(texts) @ vectors.T).numpy() for texts in sides))[0]


def conversations(preferences: Sequence[Preference]) -> list[Conversation]:
    """Both responses of every vote, one after the other."""
    return [(row.prompt, text) for row in preferences for text in (row.response_a, row.response_b)]


def shown_by(
    preferences: Sequence[Preference],
    pool: Sequence[PoolEntry],
    likes: npt.NDArray[np.float32],
    opposites: npt.NDArray[np.float32],
) -> tuple[Taste, Floats]:
    """By scores (K, 2N) of `conversations` under K criteria; and their units (K,), as `Contrasts` has them.

    Raises ``ValueError`` where no vote could be read.
    """
    scores = [side.reshape(len(side), -1, 2) for side in (likes, opposites)]
    read = np.asarray(np.isfinite(scores[0]).all(axis=(0, 2)))
    if not read.any():
        raise ValueError(f"votes: none of {len(preferences)} could be read; give votes with shorter texts")
    found = contrasts(*(side[:, read] for side in scores))
    choices = [CHOICES.index(CHOICE[row.winner]) for row, fits in zip(preferences, read, strict=True) if fits]
    gaps = found.values[:, 0] - found.values[:, 1]
    evidence = Evidence(gaps, np.array(choices), np.zeros(gaps.shape), np.full(len(gaps), -1))
    return taste(evidence, pool, len(preferences) - len(gaps)), found.units


def taste(evidence: Evidence, pool: Sequence[PoolEntry], unread: int = 0) -> Taste:
    """Criteria only where votes for random sides would speak as clearly for none in 19 of 20 files.

    Limits are test-based (Miettinen 1976) and simultaneous for all K: they hold for those that were chosen.
    """
    strongest, bar = against_chance(evidence)
    weights, roots = _clear(evidence, bar)
    differ = (evidence.differences[:, weights != 0] != 0).any(axis=1)
    agreed, asked = foreseen(evidence, lambda others: _clear(others, bar)[0], differ)
    if strongest > bar and (roots[weights != 0] > bar).all() and 2 * agreed > asked:
        halves = (bar * np.abs(weights) / np.where(roots > 0, roots, 1.0)).tolist()
        found = [_in_words(*one) for one in zip(pool, weights.tolist(), halves, strict=True) if one[1]]
        found.sort(key=lambda one: -one.weight)
        return Taste(tuple(found), len(evidence), unread, agreed, asked, 0)
    times = (bar / strongest) ** 2 if strongest else float("inf")
    more = 10 * max(1, ceil(len(evidence) * (times - 1) / 10)) if times < MOST_TIMES else None
    return Taste((), len(evidence), unread, agreed, asked, more)


def against_chance(evidence: Evidence) -> tuple[float, float]:
    """The largest of K standardized score statistics, and what it exceeds in one of 20 files of random sides."""
    sides = evidence.differences * (1.0 - evidence.choices)[:, None]
    length = np.sqrt((sides**2).sum(axis=0))
    sides = sides / np.where(length > 0, length, 1.0)
    flips = np.random.default_rng(0).choice((-1.0, 1.0), size=(FLIPS, len(sides)))
    return float(np.abs(sides.sum(axis=0)).max()), float(np.quantile(np.abs(flips @ sides).max(axis=1), 0.95))


def _clear(evidence: Evidence, bar: float) -> tuple[Floats, Floats]:
    """Weights (K,), and roots (K,) of twice the log-likelihood ratio against doing without each.

    Forward selection: the strongest, then others while their score statistic and every root are above ``bar``; what is
    left out has 0.
    """
    kept = np.zeros(evidence.differences.shape[1], np.bool_)
    weights, roots = np.zeros(len(kept)), np.zeros(len(kept))
    while not kept.all():
        _, gradient = log_likelihood(weights, evidence)
        spread = np.diag(information(weights, evidence))
        scores = np.abs(gradient) / np.sqrt(np.where(spread > 0, spread, np.inf))
        place = int(np.argmax(np.where(kept, -1.0, scores)))
        trial = kept | (np.arange(len(kept)) == place)
        best, found = _fitted(evidence, trial)
        ratios = np.zeros(len(kept))
        for other in np.flatnonzero(trial):
            without, _ = _fitted(evidence, trial & (np.arange(len(kept)) != other))
            ratios[other] = np.sqrt(2 * max(best - without, 0.0))
        if kept.any() and min(scores[place], *ratios[trial]) <= bar:
            break
        kept, weights, roots = trial, found, ratios
    return weights, roots


def _fitted(evidence: Evidence, kept: npt.NDArray[np.bool_]) -> tuple[float, Floats]:
    """The log-likelihood by the criteria that are ``kept`` (K,), and their weights."""
    part = replace(evidence, differences=evidence.differences * kept)
    weights = fit(part, np.zeros(len(kept)), sparse=False).mean
    return log_likelihood(weights, part)[0], weights


def _in_words(entry: PoolEntry, weight: float, half: float) -> WeightedCriterion:
    size = abs(weight)
    return WeightedCriterion(entry.like if weight > 0 else entry.opposite, size, size - half, size + half)
