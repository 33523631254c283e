"""Kendall's tau of two leaderboards, or of one and the truth, with its interval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from crm.leaderboard.ranking import Leaderboard
from crm.report.statistics import Floats, Interval, bootstrap_interval, rank_correlation


def compare(first: Leaderboard, second: Leaderboard, seed: int, resamples: int = 1000) -> Interval:
    """Kendall's tau between two leaderboards of the same models, with a bootstrap interval over their shared queries.

    The same queries are drawn for both. Raises ``ValueError`` for other models or no query in common.
    """
    names = sorted(first.wins.columns)
    if names != sorted(second.wins.columns):
        only = sorted(set(names) ^ set(second.wins.columns))
        raise ValueError(f"models: both leaderboards need the same models; in one only: {', '.join(only)}")
    shared = first.wins.index.intersection(second.wins.index).sort_values()
    if shared.empty:
        raise ValueError("queries: the leaderboards have none in common; rank both on one bank")
    tables = [board.wins.loc[shared, names].to_numpy() for board in (first, second)]

    def tau(drawn: Any) -> float:
        one, two = (_column_means(table[drawn]) for table in tables)
        return rank_correlation(one, two)

    return bootstrap_interval(tau, len(shared), seed, resamples)


def compare_with_truth(board: Leaderboard, truth: Mapping[str, float], seed: int, resamples: int = 1000) -> Interval:
    """Kendall's tau between a leaderboard and true win rates, with a bootstrap interval over its queries.

    ``truth`` names every candidate; the baseline takes part where it is named. Raises ``ValueError`` otherwise.
    """
    expected = set(board.wins.columns)
    if set(truth) not in (expected, expected - {board.baseline}):
        missing, unknown = sorted(expected - {board.baseline} - set(truth)), sorted(set(truth) - expected)
        raise ValueError(f"truth: models without a true win rate: {missing}; unknown models: {unknown}")
    names = sorted(truth)
    table, known = board.wins.sort_index()[names].to_numpy(), np.array([truth[name] for name in names])
    return bootstrap_interval(
        lambda drawn: rank_correlation(_column_means(table[drawn]), known), len(table), seed, resamples
    )


def _column_means(table: Floats) -> Floats:
    """Means (M,) over the rows that are present; NaN for a column without any."""
    count = (~np.isnan(table)).sum(axis=0)
    return np.where(count > 0, np.nansum(table, axis=0) / np.maximum(count, 1), np.nan)
