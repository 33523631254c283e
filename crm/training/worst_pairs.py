"""Where a trained model errs most. In: validation rows and their logits. Out: a table of the worst-judged ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from crm.model.encoding import EncodedComparison
from crm.schema import Message

COLUMNS = ("loss", "p_first", "label", "criteria", "query", "first", "second", "comparison_id")
SHOWN_CHARACTERS = 300
Judged = tuple[EncodedComparison, float]
"""A row, and the log-odds that its response shown first is preferred."""


def worst_pairs(judged: Sequence[Judged], size: int = 20) -> pd.DataFrame:
    """The ``size`` comparisons with the largest loss (nats), worst first, as rows of `COLUMNS`.

    ``p_first`` is the probability that the response shown first is preferred, ``label`` which one was (``first``,
    ``second`` or ``tie``); long texts are cut.
    """
    ranked = sorted(judged, key=lambda pair: (-loss(*pair), pair[0].comparison.id))
    return pd.DataFrame([_row(*pair) for pair in ranked[:size]], columns=list(COLUMNS))


def loss(row: EncodedComparison, logit: float) -> float:
    """Cross-entropy of a logit against the row's target, in nats; a tie is one half."""
    return max(logit, 0.0) - logit * row.target + math.log1p(math.exp(-abs(logit)))


def _row(row: EncodedComparison, logit: float) -> tuple[float | str, ...]:
    comparison = row.comparison
    first, second = comparison.response_a, comparison.response_b
    if row.order == "ba":
        first, second = second, first
    return (
        loss(row, logit),
        0.5 * (1.0 + math.tanh(0.5 * logit)),
        {1.0: "first", 0.0: "second"}.get(row.target, "tie"),
        " | ".join(comparison.criteria),
        _shown(comparison.prompt),
        _shown(first),
        _shown(second),
        comparison.id,
    )


def _shown(turns: Sequence[Message]) -> str:
    text = "\n".join(turn.content for turn in turns)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS].rstrip() + " …"
