"""Where a trained model errs most. In: validation comparisons and a judge. Out: a table of the worst-judged ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from crm.data.encoding import Order
from crm.evaluation.predict import Judge, Reading
from crm.schema import Comparison, Message

COLUMNS = ("loss", "p_first", "label", "criteria", "query", "first", "second", "comparison_id")
SHOWN_CHARACTERS = 300


def worst_pairs(judge: Judge, comparisons: Sequence[tuple[Comparison, Order]], size: int = 20) -> pd.DataFrame:
    """The ``size`` comparisons with the largest loss (nats), worst first, as rows of `COLUMNS`.

    ``p_first`` is the probability that the response shown first is preferred, ``label`` which one was (``first``,
    ``second`` or ``tie``); long texts are cut.
    """
    readings = [reading for portion in judge.read(comparisons) for reading in portion]
    ranked = sorted(readings, key=lambda reading: (-loss(reading), reading.comparison.id))
    return pd.DataFrame([_row(reading) for reading in ranked[:size]], columns=list(COLUMNS))


def loss(reading: Reading) -> float:
    """Cross-entropy of the reading against its label, in nats; a tie is one half."""
    target = {"a": 1.0, "b": 0.0, "tie": 0.5}[reading.comparison.label]
    logit = reading.preference_logit
    return max(logit, 0.0) - logit * target + math.log1p(math.exp(-abs(logit)))


def _row(reading: Reading) -> tuple[float | str, ...]:
    comparison = reading.comparison
    swapped = reading.order == "ba"
    logit = -reading.preference_logit if swapped else reading.preference_logit
    first, second = comparison.response_a, comparison.response_b
    if swapped:
        first, second = second, first
    side = {"a": "second", "b": "first"} if swapped else {"a": "first", "b": "second"}
    return (
        loss(reading),
        0.5 * (1.0 + math.tanh(0.5 * logit)),
        side.get(comparison.label, "tie"),
        " | ".join(comparison.criteria),
        _shown(comparison.prompt),
        _shown(first),
        _shown(second),
        comparison.id,
    )


def _shown(turns: Sequence[Message]) -> str:
    text = "\n".join(turn.content for turn in turns)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS].rstrip() + " …"
