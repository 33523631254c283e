"""Where a trained model errs most. In: validation comparisons and a judge. Out: a table of the worst-judged ones."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from crm.judges import Asked, Judge, Reading
from crm.schema import Message

COLUMNS = ("loss", "p_first", "label", "criteria", "query", "first", "second", "comparison_id")
SHOWN_CHARACTERS = 300


def worst_pairs(judge: Judge, comparisons: Sequence[Asked], size: int = 20) -> pd.DataFrame:
    """The ``size`` comparisons with the largest loss (nats), worst first, as rows of `COLUMNS`.

    ``p_first`` is the probability that the response shown first is preferred, ``label`` which one was (``first``,
    ``second`` or ``tie``); long texts are cut.
    """
    portions = judge.read(comparisons)
    readings = [reading for portion in portions for reading in portion if reading.preference_logit is not None]
    ranked = sorted(readings, key=lambda reading: (-loss(reading), reading.comparison.id))
    return pd.DataFrame([_row(reading) for reading in ranked[:size]], columns=list(COLUMNS))


def loss(reading: Reading) -> float:
    """Cross-entropy of a verdict against its label, in nats; a tie is one half."""
    target = {"a": 1.0, "b": 0.0, "tie": 0.5}[reading.comparison.label]
    logit = _logit(reading)
    return max(logit, 0.0) - logit * target + math.log1p(math.exp(-abs(logit)))


def _row(reading: Reading) -> tuple[float | str, ...]:
    comparison = reading.comparison
    swapped = reading.order == "ba"
    logit = -_logit(reading) if swapped else _logit(reading)
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


def _logit(reading: Reading) -> float:
    assert reading.preference_logit is not None, "readings without a verdict were left out"
    return reading.preference_logit


def _shown(turns: Sequence[Message]) -> str:
    text = "\n".join(turn.content for turn in turns)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS].rstrip() + " …"
