"""Somebody's taste from their votes: criteria with weights.

Each vote is a pick between two answers that they once made; nobody asked for a reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from crm.model.late_reading import LateReader
from crm.picking.contrasts import contrasts
from crm.picking.in_words import Wish, wishes
from crm.picking.pool import PoolEntry
from crm.picking.session import Pair, Pick, Session
from crm.schema import Preference

CHOICE = {"a": "left", "tie": "same", "b": "right"}
PORTION = 64
"""Conversations between two steps of a progress bar."""


@dataclass(frozen=True)
class Proposal:
    """``wishes`` that ``votes`` votes show; ``unread`` more were too long.

    Of ``asked`` votes for a side ``agreed`` are foreseen, each from others (`Session.agreement`).
    """

    wishes: tuple[Wish, ...]
    votes: int
    unread: int
    agreed: int
    asked: int


def propose(
    preferences: Sequence[Preference], reader: LateReader, pool: Sequence[PoolEntry], steps: Any = iter
) -> Proposal:
    """The criteria of one person. Raises ``ValueError`` where no vote could be read; ``steps`` shows a bar."""
    talks = [(row.prompt, text) for row in preferences for text in (row.response_a, row.response_b)]
    parts = [reader.responses(talks[start : start + PORTION]) for start in steps(range(0, len(talks), PORTION))]
    vectors = torch.cat(parts) if parts else torch.empty(0, reader.size)
    scores = [_scores(vectors, reader, [getattr(entry, side) for entry in pool]) for side in ("like", "opposite")]
    read = np.isfinite(scores[0]).all(axis=(0, 2))
    if not read.any():
        raise ValueError(f"votes: none of {len(preferences)} could be read; give votes with shorter texts")
    kept = [row for row, fits in zip(preferences, read, strict=True) if fits]
    seen = contrasts(*(side[:, read] for side in scores))
    picks = tuple(Pick(Pair(place, 0, 1), CHOICE[row.winner]) for place, row in enumerate(kept))
    session = Session(seen, 0, (False,) * len(pool), picks, reasons_offered=False)
    found = tuple(wishes(session.posterior, pool))
    return Proposal(found, len(kept), int((~read).sum()), *session.agreement(random_only=False))


def _scores(vectors: torch.Tensor, reader: LateReader, texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """(K, N, 2): a vote a row, its two responses beside each other."""
    found: np.ndarray[Any, np.dtype[np.float32]] = (reader.wishes(texts) @ vectors.T).reshape(len(texts), -1, 2).numpy()
    return found
