"""Predictions in; samples out: a comparison with the judge's readings in both orders put together."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from crm.schema import Prediction


@dataclass(frozen=True)
class Sample:
    """One comparison with its orders put together: mean ``logit``, 1 if the label is A else 0 (None for a tie).

    ``failures`` are those of its readings; with any, it has no verdict, and ``logit`` is NaN. ``tokens`` is the sum
    over its readings, NaN where one of them is not known.
    """

    comparison_id: str
    cluster: str
    label: int | None
    logit: float
    orders: dict[str, float]
    failures: tuple[str, ...] = ()
    tokens: float = math.nan


def to_samples(predictions: Iterable[Prediction]) -> dict[str, list[Sample]]:
    """The samples of every suite, sorted by id so that the order of the files does not matter.

    Raises ``ValueError`` for a reading that appears twice, two fingerprints in a suite, or orders of one comparison
    that differ in label or cluster.
    """
    suites: dict[str, list[Prediction]] = {}
    for prediction in predictions:
        suites.setdefault(prediction.suite, []).append(prediction)
    return {name: _samples(name, rows) for name, rows in suites.items()}


def _samples(suite: str, predictions: list[Prediction]) -> list[Sample]:
    prints = sorted({prediction.fingerprint for prediction in predictions})
    if len(prints) > 1:
        raise ValueError(f"fingerprint: suite {suite} mixes {', '.join(prints)}; keep one checkpoint per file")
    readings: dict[str, dict[str, Prediction]] = {}
    for prediction in predictions:
        orders = readings.setdefault(prediction.comparison_id, {})
        if prediction.order in orders:
            raise ValueError(
                f"comparison_id: {prediction.comparison_id} in order {prediction.order} appears twice in suite {suite}"
            )
        orders[prediction.order] = prediction
    return [_sample(identifier, readings[identifier]) for identifier in sorted(readings)]


def _sample(identifier: str, readings: dict[str, Prediction]) -> Sample:
    if len({(reading.label, reading.cluster) for reading in readings.values()}) > 1:
        raise ValueError(f"comparison_id: the orders of {identifier} differ in label or cluster; the data changed")
    first = next(iter(readings.values()))
    label = None if first.label == "tie" else int(first.label == "a")
    failures = tuple(reading.failure for reading in readings.values() if reading.failure is not None)
    orders = {name: r.preference_logit for name, r in readings.items() if r.preference_logit is not None}
    logit = math.nan if failures else sum(orders.values()) / len(orders)
    tokens = float(sum(math.nan if reading.tokens is None else reading.tokens for reading in readings.values()))
    return Sample(identifier, first.cluster, label, logit, orders, failures, tokens)
