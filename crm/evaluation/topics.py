"""Accuracy topic by topic. In: predictions, and the topic of every comparison. Out: a table with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from crm.evaluation.results import accuracy
from crm.evaluation.samples import Sample, to_samples
from crm.report.statistics import Interval
from crm.report.tables import distinct
from crm.schema import Prediction

COLUMNS = ("suite", "topic", "n", "accuracy", "low", "high")
MAX_TOPICS = 60
"""A suite with more is not broken down: few comparisons each, and a table that nobody reads."""
ALL, MEAN, NONE = "(all)", "(mean of topics)", "(no topic)"

Topics = Mapping[str, str | None]
"""Of comparisons, by their ids."""


def topic_table(predictions: Sequence[Prediction], topics: Mapping[str, Topics]) -> pd.DataFrame:
    """One row per suite and topic with the columns `COLUMNS`, for every suite of 2 to `MAX_TOPICS` topics.

    ``topics`` is by suite. A suite begins with the accuracy over all its comparisons and the plain mean of its topics',
    whatever their sizes. Ties and comparisons without a verdict are left out, as they are of the suite's accuracy;
    comparisons without a topic have a row of their own. Limits are those of 95 % intervals, clustered by prompt.
    """
    rows: list[tuple[str, str, Interval]] = []
    for suite, samples in to_samples(predictions).items():
        of = topics[suite]
        known = {topic for topic in of.values() if topic is not None}
        if 2 <= len(known) <= MAX_TOPICS:
            rows += [(suite, name, interval) for name, interval in _breakdown(samples, of)]
    table = [(suite, name, i.n, i.mean, i.low, i.high) for suite, name, i in rows]
    return pd.DataFrame(table, columns=list(COLUMNS))


def _breakdown(samples: Sequence[Sample], topics: Topics) -> list[tuple[str, Interval]]:
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(_row_of(topics[sample.comparison_id]), []).append(sample)
    keys = {sample.comparison_id: _row_of(topics[sample.comparison_id]) for sample in samples}
    found = [(ALL, accuracy(samples)), (MEAN, accuracy(samples, strata=keys))]
    found += [(name, accuracy(groups[name])) for name in sorted(groups, key=lambda name: (name == NONE, name))]
    return [(name, interval) for name, interval in found if interval is not None]


def _row_of(topic: str | None) -> str:
    return distinct(topic, "topic ", (ALL, MEAN, NONE)) if topic else NONE
