"""Outcomes of leaderboards written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from crm.leaderboard.outcomes import Outcomes


def outcomes(
    logits: Mapping[str, Sequence[float]],
    *,
    topics: Sequence[str] = (),
    words: Any = 10.0,
    base_words: Any = 20.0,
    scores: Any = None,
    unanswered: Any = False,
) -> Outcomes:
    """Queries q0, q1, ... on which every model, by name, meets "base"; NaN is not read.

    ``words`` and ``unanswered`` are of the candidates (C, Q), ``scores`` of all models (C + 1, Q).
    """
    names = sorted(logits)
    table = np.array([logits[name] for name in names], dtype=np.float64)
    count = table.shape[1]

    def whole(candidates: Any, last: Any) -> Any:
        return np.vstack([np.broadcast_to(candidates, table.shape), np.broadcast_to(last, (1, count))]).T

    return Outcomes(
        queries=tuple(f"q{place:03}" for place in range(count)),
        topics=tuple(topics) or ("Arts",) * count,
        models=(*names, "base"),
        logits=whole(np.where(unanswered, np.nan, table), 0.0),
        answered=~whole(unanswered, False).astype(bool),
        words=whole(words, base_words),
        scores=None if scores is None else np.array(scores, dtype=np.float64).T,
    )
