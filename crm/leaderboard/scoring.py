"""A judge's readings of a bank as `Outcomes`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from crm.evaluation.predictions import predict
from crm.io.processes import ALONE, Processes
from crm.io.words import count_words
from crm.judges.judge import Judge
from crm.leaderboard.bank.bank import Bank
from crm.leaderboard.outcomes import Outcomes
from crm.schema import Comparison, Message, Prediction

TOO_LONG = "too_long"
"""`Judge.left_out` of what a judge can never read. Such a comparison is lost; any other that is missing is unknown."""


def bank_comparisons(bank: Bank, criteria: Sequence[str]) -> list[Comparison]:
    """Every candidate (response A) against the baseline (response B), query by query, labelled ``tie``: no votes."""
    return [
        Comparison(
            id=comparison_id(query.id, author),
            preference_id=query.id,
            criteria=tuple(criteria),
            prompt=query.prompt,
            response_a=(Message("assistant", bank.responses[author][query.id]),),
            response_b=(Message("assistant", bank.responses[bank.baseline][query.id]),),
            label="tie",
            direction="none",
        )
        for query in bank.queries
        for author in bank.authors
        if author != bank.baseline
    ]


def score_bank(
    judge: Judge, bank: Bank, criteria: Sequence[str], *, folder: Path, progress: bool, processes: Processes = ALONE
) -> tuple[Outcomes, dict[str, int]]:
    """Outcomes, both orders averaged, and counts of readings; predictions under ``folder`` are not made again."""
    given: Any = {"suite": bank.name, "name": "bank", "progress": progress, "processes": processes}
    _, rows, counts = predict(judge, bank_comparisons(bank, criteria), folder, **given)
    return to_outcomes(bank, rows, too_long=judge.left_out == TOO_LONG), counts


def to_outcomes(bank: Bank, predictions: Sequence[Prediction], *, too_long: bool = False) -> Outcomes:
    """Means of both orders; one that lacks a verdict in an order is not read.

    A reading that is not among the predictions was ``too_long`` for the judge, or was not answered. A query's score of
    the baseline is the mean over its comparisons.
    """
    queries = sorted(bank.queries, key=lambda query: query.id)
    models = (*(name for name in bank.authors if name != bank.baseline), bank.baseline)
    place = {comparison_id(q.id, m): (row, column) for row, q in enumerate(queries) for column, m in enumerate(models)}
    found, given = np.full((3, len(queries), len(models), 2), np.nan), np.zeros((len(queries), len(models), 2), bool)
    for reading in predictions:
        cell = (*place[reading.comparison_id], ("ab", "ba").index(reading.order))
        given[cell] = True
        if reading.preference_logit is not None:
            numbers = reading.preference_logit, reading.score_a, reading.score_b
            found[(slice(None), *cell)] = np.array(numbers, dtype=np.float64)
    logits, scores, theirs = found.mean(axis=-1)
    read, answered = ~np.isnan(logits), np.asarray(given.all(axis=-1) | too_long)
    known = not np.isnan(scores[read]).any() and not np.isnan(theirs[read]).any()
    scores = np.where(read, scores, np.where(answered, -np.inf, np.nan))
    count = read.sum(axis=1)
    mean = np.where(read, theirs, 0.0).sum(axis=1) / np.maximum(count, 1)
    logits[:, -1], answered[:, -1], scores[:, -1] = 0.0, True, np.where(count > 0, mean, np.nan)
    words = np.array([[count_words(bank.responses[name][query.id]) for name in models] for query in queries], float)
    ids, topics = tuple(query.id for query in queries), tuple(query.topic for query in queries)
    return Outcomes(ids, topics, models, logits, answered, words, scores if known else None)


def comparison_id(query_id: str, author: str) -> str:
    """The id of an author's comparison on a query; a JSON list, so that it is the same for one of each only."""
    return json.dumps([query_id, author], ensure_ascii=False)
