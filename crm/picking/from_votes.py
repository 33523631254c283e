"""What somebody likes, from votes that they have given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from crm.model.late_reading import Conversation, LateReader
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
    talks = conversations(preferences)
    parts = [reader.responses(talks[start : start + PORTION]) for start in steps(range(0, len(talks), PORTION))]
    vectors = torch.cat(parts) if parts else torch.empty(0, reader.size)
    sides = ([getattr(entry, side) for entry in pool] for side in ("like", "opposite"))
    session = session_of(preferences, *((reader.criterion_vectors(texts) @ vectors.T).numpy() for texts in sides))
    found, voted = tuple(weighted_criteria(session.posterior, pool)), len(session.picks)
    return Taste(found, voted, len(preferences) - voted, *session.agreement(random_only=False))


def conversations(preferences: Sequence[Preference]) -> list[Conversation]:
    """Both responses of every vote, one after the other."""
    return [(row.prompt, text) for row in preferences for text in (row.response_a, row.response_b)]


def session_of(
    preferences: Sequence[Preference], likes: npt.NDArray[np.float32], opposites: npt.NDArray[np.float32]
) -> Session:
    """The votes as picks, by scores (K, 2N) of `conversations` under K criteria; without votes that could not be read.

    Raises ``ValueError`` where none could.
    """
    scores = [side.reshape(len(side), -1, 2) for side in (likes, opposites)]
    read = np.asarray(np.isfinite(scores[0]).all(axis=(0, 2)))
    if not read.any():
        raise ValueError(f"votes: none of {len(preferences)} could be read; give votes with shorter texts")
    kept = [row for row, fits in zip(preferences, read, strict=True) if fits]
    picks = tuple(Pick(Pair(place, 0, 1), CHOICE[row.winner]) for place, row in enumerate(kept))
    return Session(contrasts(*(side[:, read] for side in scores)), 0, (0.0,) * len(likes), picks)
