"""A judge's readings of a bank as one `Match` per query and candidate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from crm.evaluation.predictions import predict, read_predictions, reading_digest
from crm.io.processes import ALONE, Processes
from crm.io.words import count_words
from crm.judges.judge import Judge
from crm.leaderboard.bank.bank import Bank, check_baseline
from crm.schema import Comparison, Match, Message, Prediction

TOO_LONG = "too_long"
"""`Judge.left_out` of what a judge can never read. Such a comparison is lost; any other that is missing is unknown."""


def bank_comparisons(bank: Bank, criteria: Sequence[str], baseline: str) -> list[Comparison]:
    """Every candidate (response A) against the baseline (response B) on every query, query by query.

    The label is ``tie``: a bank has no votes. Raises ``ValueError`` for a baseline that the bank lacks.
    """
    check_baseline(bank, baseline)
    return [
        Comparison(
            id=comparison_id(query.id, author),
            preference_id=query.id,
            criteria=tuple(criteria),
            prompt=query.prompt,
            response_a=(Message("assistant", bank.responses[author][query.id]),),
            response_b=(Message("assistant", bank.responses[baseline][query.id]),),
            label="tie",
            direction="none",
        )
        for query in bank.queries
        for author in bank.authors
        if author != baseline
    ]


def score_bank(
    judge: Judge,
    bank: Bank,
    criteria: Sequence[str],
    *,
    baseline: str,
    folder: Path,
    progress: bool,
    processes: Processes = ALONE,
) -> tuple[list[Match], dict[str, int]]:
    """Matches, both orders averaged, one a comparison, and counts; predictions under ``folder`` are not made again."""
    comparisons = bank_comparisons(bank, criteria, baseline)
    digest = reading_digest(judge.digest, comparisons)
    path = folder / digest / "bank.jsonl"
    counts = predict(
        judge, comparisons, suite=bank.name, digest=digest, path=path, progress=progress, processes=processes
    )
    return to_matches(bank, baseline, read_predictions(path), too_long=judge.left_out == TOO_LONG), counts


def to_matches(bank: Bank, baseline: str, predictions: Sequence[Prediction], *, too_long: bool = False) -> list[Match]:
    """A match for every comparison of the bank: both orders averaged.

    One that lacks a verdict in an order has no logit. A reading that is not among the predictions was ``too_long`` for
    the judge, or got no answer: the match is then not ``answered``.
    """
    readings: dict[str, list[Prediction]] = {}
    for prediction in predictions:
        readings.setdefault(prediction.comparison_id, []).append(prediction)
    matches = []
    for query, candidate in product(bank.queries, bank.authors):
        if candidate == baseline:
            continue
        own = readings.get(comparison_id(query.id, candidate), [])
        known = [reading for reading in own if reading.preference_logit is not None]
        read = len(known) == 2
        matches.append(
            Match(
                query_id=query.id,
                topic=query.topic,
                candidate=candidate,
                baseline=baseline,
                preference_logit=_mean([reading.preference_logit for reading in known]) if read else None,
                length_candidate=count_words(bank.responses[candidate][query.id]),
                length_baseline=count_words(bank.responses[baseline][query.id]),
                score_candidate=_mean([reading.score_a for reading in known]) if read else None,
                score_baseline=_mean([reading.score_b for reading in known]) if read else None,
                answered=too_long or len(own) == 2,
            )
        )
    return matches


def comparison_id(query_id: str, author: str) -> str:
    """The id of an author's comparison on a query; a JSON list, so that it is the same for one of each only."""
    return json.dumps([query_id, author], ensure_ascii=False)


def _mean(scores: list[float | None]) -> float | None:
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) if len(known) == len(scores) else None
