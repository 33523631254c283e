"""What somebody likes, from votes that they have given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from crm.model.late_reading import LateReader
from crm.picking.criteria import PoolEntry, contrasts
from crm.picking.posterior import WeightedCriterion, weighted_criteria
from crm.picking.session import Pair, Pick, Session
from crm.schema import Preference

CHOICE = {"a": "left", "tie": "same", "b": "right"}
PORTION = 64
"""Conversations between two steps of a progress bar."""


@dataclass(frozen=True)
class Taste:
    """``criteria`` that ``votes`` votes show; ``unread`` more were too long.

    Of ``asked`` votes for a side ``agreed`` are predicted, each from others (`Session.agreement`).
    """

    criteria: tuple[WeightedCriterion, ...]
    votes: int
    unread: int
    agreed: int
    asked: int


def taste_of(
    preferences: Sequence[Preference], reader: LateReader, pool: Sequence[PoolEntry], steps: Any = iter
) -> Taste:
    """The criteria of one person, each vote a pick. Raises ``ValueError`` where no vote could be read."""
    talks = [(row.prompt, text) for row in preferences for text in (row.response_a, row.response_b)]
    parts = [reader.responses(talks[start : start + PORTION]) for start in steps(range(0, len(talks), PORTION))]
    vectors = torch.cat(parts) if parts else torch.empty(0, reader.size)
    sides = [[getattr(entry, side) for entry in pool] for side in ("like", "opposite")]
    scores = [(reader.criterion_vectors(texts) @ vectors.T).reshape(len(pool), -1, 2).numpy() for texts in sides]
    read = np.isfinite(scores[0]).all(axis=(0, 2))
    if not read.any():
        raise ValueError(f"votes: none of {len(preferences)} could be read; give votes with shorter texts")
    kept = [row for row, fits in zip(preferences, read, strict=True) if fits]
    picks = tuple(Pick(Pair(place, 0, 1), CHOICE[row.winner]) for place, row in enumerate(kept))
    session = Session(contrasts(*(side[:, read] for side in scores)), 0, (False,) * len(pool), picks)
    found = tuple(weighted_criteria(session.posterior, pool))
    return Taste(found, len(kept), int((~read).sum()), *session.agreement(random_only=False))
