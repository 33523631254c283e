"""Who won which query. In: matches of a bank. Out: a table of win probabilities, intervals, what is significant."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from crm.report.statistics import Floats, Interval, cluster_interval, holm, mean_interval
from crm.schema import Match


def check_matches(matches: Sequence[Match]) -> str:
    """The baseline. Raises ``ValueError`` for no matches, two baselines, one as its own candidate, a repeated match."""
    if not matches:
        raise ValueError("matches: none given, expected one or more; score a bank first")
    baselines = sorted({match.baseline for match in matches})
    if len(baselines) > 1:
        raise ValueError(f"baseline: {', '.join(baselines)}; all matches of a leaderboard need the same one")
    seen: set[tuple[str, str]] = set()
    for match in matches:
        if match.candidate == match.baseline:
            raise ValueError(f"candidate: {match.candidate} is the baseline itself, on query {match.query_id}")
        if (match.candidate, match.query_id) in seen:
            raise ValueError(f"candidate: {match.candidate} appears twice on query {match.query_id}")
        seen.add((match.candidate, match.query_id))
    return baselines[0]


def refuse_missing(wins: pd.DataFrame) -> None:
    """Raise ``ValueError`` where a model has no match on a query that others have one on."""
    for model in wins.columns:
        if wins[model].isna().any():
            query = wins.index[wins[model].isna()][0]
            raise ValueError(
                f"matches: {model!r} has none on query {query!r}, others have; give one for every query, without a "
                "logit where the judge could not read it"
            )


def on_readable_queries(matches: Sequence[Match]) -> tuple[Match, ...]:
    """Without queries on which the judge could read no model at all: there the query or the baseline is at fault."""
    readable = {match.query_id for match in matches if match.preference_logit is not None}
    if not readable:
        raise ValueError("matches: the judge could read none of them; shorten the responses or take another judge")
    return tuple(match for match in matches if match.query_id in readable)


def win_table(matches: Sequence[Match]) -> pd.DataFrame:
    """Win probabilities, queries by models, both sorted; the baseline stands last with 0.5 throughout."""
    columns: dict[str, dict[str, float]] = {}
    for match in matches:
        columns.setdefault(match.candidate, {})[match.query_id] = match.win
    return pd.DataFrame(columns).sort_index().sort_index(axis=1).assign(**{matches[0].baseline: 0.5})


def win_rate_interval(values: Floats) -> Interval:
    """95 % interval of the mean of win probabilities (N,), one per query: Student's t, kept within [0, 1].

    Where all are equal (a judge without doubt on few queries) the limits are Wilson's, not a point.
    """
    if np.ptp(values) < 1e-12:
        return cluster_interval(values, range(len(values)))
    got = mean_interval(values)
    return Interval(got.mean, got.standard_error, max(0.0, got.low), min(1.0, got.high), got.n, got.clusters)


def topic_intervals(matches: Sequence[Match]) -> dict[str, dict[str, Interval]]:
    """Win rate and interval of every candidate, topic by topic."""
    values: dict[str, dict[str, list[float]]] = {}
    for match in matches:
        topics = values.setdefault(match.candidate, {})
        topics.setdefault(match.topic, []).append(match.win)
    return {
        name: {topic: win_rate_interval(np.array(rates)) for topic, rates in sorted(topics.items())}
        for name, topics in values.items()
    }


def mean_words_of(matches: Sequence[Match]) -> dict[str, float]:
    """Mean length in words per model; the baseline's over its distinct queries."""
    lengths: dict[str, dict[str, int]] = {}
    for match in matches:
        lengths.setdefault(match.candidate, {})[match.query_id] = match.length_candidate
        lengths.setdefault(match.baseline, {})[match.query_id] = match.length_baseline
    return {name: float(np.mean(list(words.values()))) for name, words in lengths.items()}


def significant_pairs(wins: pd.DataFrame, significance: float) -> set[tuple[str, str]]:
    """Ordered pairs (better, worse) by paired t-tests over shared queries, Holm-corrected over all pairs."""
    names, table = list(wins.columns), wins.to_numpy()
    pairs = list(itertools.combinations(range(len(names)), 2))
    left, right = np.array(pairs, dtype=int).reshape(-1, 2).T
    differences = table[:, left] - table[:, right]
    adjusted = holm(_paired_p(differences).tolist())
    found = set()
    for (one, two), difference, p in zip(pairs, differences.T, adjusted, strict=True):
        if p < significance:
            better, worse = (one, two) if np.nanmean(difference) > 0 else (two, one)
            found.add((names[better], names[worse]))
    return found


def _paired_p(differences: Floats) -> Floats:
    """Two-sided p-values (P,) of paired differences (N, P), NaN where there is none: as ``scipy.stats.ttest_rel`` of
    every column, all at once. A difference on fewer than two queries, or of nothing, is no evidence; a constant other
    difference is judged by a sign test.
    """
    known = ~np.isnan(differences)
    n = known.sum(axis=0)
    values = np.where(known, differences, 0.0)
    mean = values.sum(axis=0) / np.maximum(n, 1)
    squares = (np.where(known, differences - mean, 0.0) ** 2).sum(axis=0)
    spread = np.where(known, differences, -np.inf).max(axis=0) - np.where(known, differences, np.inf).min(axis=0)
    error = np.sqrt(squares / np.maximum(n - 1, 1) / np.maximum(n, 1))
    constant = spread < 1e-12
    t = mean / np.where(constant | (error == 0), 1.0, error)
    p = np.where(constant, 2.0 ** (1 - n), 2 * stats.t.sf(np.abs(t), np.maximum(n - 1, 1)))
    return np.where((n < 2) | ~values.any(axis=0), 1.0, p)
