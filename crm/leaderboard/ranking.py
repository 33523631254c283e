"""Matches of a bank in; a leaderboard out: win rates with intervals, tied groups, topics, fitted views, agreement."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from crm.leaderboard.racing import Membership, Standing
from crm.leaderboard.ratings import bradley_terry, elo, length_controlled
from crm.report.statistics import (
    Floats,
    Interval,
    bootstrap_interval,
    cluster_interval,
    holm,
    mean_interval,
    rank_correlation,
)
from crm.schema import Match

VIEWS = ("win_rate", "topics", "bradley_terry", "length_controlled")


@dataclass(frozen=True)
class Row:
    """One model of a leaderboard.

    ``win_rate`` in [0, 1] against the baseline, with its interval (None for the baseline itself) over ``n`` queries,
    of which ``unread`` could not be read by the judge and count as lost;
    ``rank`` 1 is best; ``rank_low`` is 1 + the number of models that are significantly better, and equal for a group;
    ``tied_with`` are the models that are not significantly different; ``mean_words`` is the mean length. After a race,
    ``verdict`` says whether the model is in the top k; ``interval`` is None where ``n`` is not all of its queries
    (they ended where the numbers looked a certain way), ``rank_low`` is k + 1 below the top k, and no ties are named.
    """

    model: str
    win_rate: float
    interval: Interval | None
    n: int
    mean_words: float
    rank: int
    rank_low: int
    tied_with: tuple[str, ...]
    topics: Mapping[str, Interval]
    verdict: Membership | None = None
    unread: int = 0


class Leaderboard:
    """Win rates of all candidates of ``matches`` against their one baseline.

    ``rows`` are sorted best first; ``wins`` is the table (queries, models) of win probabilities: 0.5 for the baseline,
    0 where the judge could not read a model, NaN where a race did not ask. Queries on which no model could be read say
    nothing and are left out of everything (``left_out`` counts them). Raises ``ValueError`` for no matches, none that
    was read, two baselines, the baseline as its own candidate, a candidate that appears twice on a query, or, but after
    a race, one that lacks a match on a query: rates on different queries do not order models.

    With the ``standing`` of a race, models that were read on fewer queries than others stand by its verdicts first
    (in, open, out) and by their win rates only then.
    """

    def __init__(self, matches: Sequence[Match], significance: float = 0.05, standing: Standing | None = None) -> None:
        self.baseline = _check(matches)
        self.standing = standing
        self.matches = _on_readable_queries(matches) if standing is None else tuple(matches)
        self.left_out = len({match.query_id for match in matches}) - len({match.query_id for match in self.matches})
        self.unread = Counter(match.candidate for match in self.matches if match.preference_logit is None)
        self.wins = _win_table(self.matches)
        if standing is None:
            _refuse_missing(self.wins)
        self.topics = sorted({match.topic for match in self.matches})
        self.rows = self._rows(significance) if standing is None else self._raced(standing)

    def shared(self) -> Leaderboard:
        """The leaderboard of the queries on which every model was read; ``ValueError`` where there are none."""
        whole = set(self.wins.dropna().index)
        return Leaderboard([match for match in self.matches if match.query_id in whole])

    def explain_unread(self) -> str:
        """What could not be read and what became of it, in one line; nothing where all was read."""
        told = []
        if self.unread:
            told.append(
                f"{sum(self.unread.values())} comparisons of {len(self.unread)} models could not be read by the judge "
                "and count as lost (column unread)"
            )
        if self.left_out:
            told.append(f"{self.left_out} queries on which none could be read are left out for all")
        return "; ".join(told)

    def win_rates(self) -> dict[str, float]:
        """Win rate of every model, the baseline (0.5) among them, best first."""
        return {row.model: row.win_rate for row in self.rows}

    def frame(self, view: str = "win_rate", sort: str = "rank", ascending: bool | None = None) -> pd.DataFrame:
        """A table of one of `VIEWS`, numbers unformatted, sorted by the column ``sort``.

        By default ranks and names rise and all other columns fall. ``topics`` has a column per topic (win rates);
        ``bradley_terry`` and ``length_controlled`` have their own ranks. After a race all but
        ``win_rate`` are those of `shared`. Raises ``ValueError`` for an unknown view or column.
        """
        if view not in VIEWS:
            raise ValueError(f"view: {view!r} is not one of {', '.join(VIEWS)}")
        if self.standing is not None and view != "win_rate":
            return self.shared().frame(view, sort, ascending)
        table: pd.DataFrame = getattr(self, f"_{view}")()
        if sort not in table.columns:
            raise ValueError(f"sort: {sort!r} is not a column of {view}, choose one of {', '.join(table.columns)}")
        rising = sort in ("rank", "rank_low", "model") if ascending is None else ascending
        return table.sort_values(sort, ascending=rising, kind="stable").reset_index(drop=True)

    def _rows(self, significance: float) -> list[Row]:
        rates = self.wins.mean()
        names = sorted(rates.index, key=lambda name: (-rates[name], name))
        worse = _significant(self.wins[names], significance)
        words = _mean_words(self.matches)
        by_topic = _topic_intervals(self.matches)
        rows = []
        for place, name in enumerate(names):
            values = self.wins[name].dropna().to_numpy()
            interval = None if name == self.baseline else win_rate_interval(values)
            tied = tuple(other for other in names if other != name and not {(name, other), (other, name)} & worse)
            low = 1 + sum((other, name) in worse for other in names)
            numbers = (float(rates[name]), interval, len(values), words[name], place + 1, low)
            rows.append(Row(name, *numbers, tied, by_topic.get(name, {}), unread=self.unread[name]))
        return rows

    def _raced(self, standing: Standing) -> list[Row]:
        rates, words, verdicts = self.wins.mean(), _mean_words(self.matches), standing.verdicts
        groups = ("in", "open", "out")
        rows: list[Row] = []
        for name in sorted(rates.index, key=lambda name: (groups.index(verdicts[name]), -rates[name], name)):
            values = self.wins[name].dropna().to_numpy()
            whole = name != self.baseline and len(values) == standing.queries
            interval = win_rate_interval(values) if whole else None
            low = standing.top + 1 if verdicts[name] == "out" else 1
            numbers = (float(rates[name]), interval, len(values), words[name], len(rows) + 1, low)
            rows.append(Row(name, *numbers, (), {}, verdicts[name], self.unread[name]))
        return rows

    def _win_rate(self) -> pd.DataFrame:
        table = self._numbers()
        if self.standing is None:
            return table
        verdicts = [row.verdict for row in self.rows]
        return table.drop(columns="tied_with").assign(**{f"top_{self.standing.top}": verdicts})

    def _numbers(self) -> pd.DataFrame:
        return pd.DataFrame(
            {
                "rank": row.rank,
                "rank_low": row.rank_low,
                "model": row.model,
                "win_rate": row.win_rate,
                "low": row.interval.low if row.interval else np.nan,
                "high": row.interval.high if row.interval else np.nan,
                "n": row.n,
                "unread": row.unread,
                "mean_words": row.mean_words,
                "tied_with": ", ".join(row.tied_with),
            }
            for row in self.rows
        )

    def _topics(self) -> pd.DataFrame:
        table = []
        for row in self.rows:
            own = {topic: row.topics[topic].mean if topic in row.topics else np.nan for topic in self.topics}
            if row.model == self.baseline:
                own = dict.fromkeys(self.topics, 0.5)
            table.append({"rank": row.rank, "model": row.model, "overall": row.win_rate, **own})
        return pd.DataFrame(table)

    def _bradley_terry(self) -> pd.DataFrame:
        strengths, pairs = bradley_terry(self.matches)
        columns = {"elo": {name: elo(value) for name, value in strengths.items()}}
        return self._fitted(columns).assign(pairs=pairs)

    def _length_controlled(self) -> pd.DataFrame:
        rates, beta = length_controlled(self.matches)
        columns = {"length_controlled": {**rates, self.baseline: 0.5}}
        return self._fitted(columns).assign(length_coefficient=beta)

    def _fitted(self, columns: Mapping[str, Mapping[str, float]]) -> pd.DataFrame:
        """Ranked by the first of ``columns``, with the raw win rate and the length beside it."""
        score = next(iter(columns.values()))
        rows = sorted(self.rows, key=lambda row: (-score[row.model], row.model))
        table: list[dict[str, Any]] = [
            {
                "rank": place,
                "model": row.model,
                **{name: values[row.model] for name, values in columns.items()},
                "win_rate": row.win_rate,
                "unread": row.unread,
                "mean_words": row.mean_words,
            }
            for place, row in enumerate(rows, start=1)
        ]
        return pd.DataFrame(table)


def win_rate_interval(values: Floats) -> Interval:
    """95 % interval of the mean of win probabilities (N,), one per query: Student's t, kept within [0, 1].

    Where all are equal (a judge without doubt on few queries) the limits are Wilson's, not a point.
    """
    if np.ptp(values) < 1e-12:
        return cluster_interval(values, range(len(values)))
    got = mean_interval(values)
    return Interval(got.mean, got.standard_error, max(0.0, got.low), min(1.0, got.high), got.n, got.clusters)


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


def _check(matches: Sequence[Match]) -> str:
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


def _refuse_missing(wins: pd.DataFrame) -> None:
    for model in wins.columns:
        if wins[model].isna().any():
            query = wins.index[wins[model].isna()][0]
            raise ValueError(
                f"matches: {model!r} has none on query {query!r}, others have; give one for every query, without a "
                "logit where the judge could not read it"
            )


def _on_readable_queries(matches: Sequence[Match]) -> tuple[Match, ...]:
    """Without queries on which the judge could read no model at all: there the query or the baseline is at fault."""
    readable = {match.query_id for match in matches if match.preference_logit is not None}
    if not readable:
        raise ValueError("matches: the judge could read none of them; shorten the responses or take another judge")
    return tuple(match for match in matches if match.query_id in readable)


def _win_table(matches: Sequence[Match]) -> pd.DataFrame:
    columns: dict[str, dict[str, float]] = {}
    for match in matches:
        columns.setdefault(match.candidate, {})[match.query_id] = match.win
    return pd.DataFrame(columns).sort_index().sort_index(axis=1).assign(**{matches[0].baseline: 0.5})


def _significant(wins: pd.DataFrame, significance: float) -> set[tuple[str, str]]:
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


def _mean_words(matches: Sequence[Match]) -> dict[str, float]:
    """Mean length in words per model; the baseline's over its distinct queries."""
    lengths: dict[str, dict[str, int]] = {}
    for match in matches:
        lengths.setdefault(match.candidate, {})[match.query_id] = match.length_candidate
        lengths.setdefault(match.baseline, {})[match.query_id] = match.length_baseline
    return {name: float(np.mean(list(words.values()))) for name, words in lengths.items()}


def _topic_intervals(matches: Sequence[Match]) -> dict[str, dict[str, Interval]]:
    values: dict[str, dict[str, list[float]]] = {}
    for match in matches:
        topics = values.setdefault(match.candidate, {})
        topics.setdefault(match.topic, []).append(match.win)
    return {
        name: {topic: win_rate_interval(np.array(rates)) for topic, rates in sorted(topics.items())}
        for name, topics in values.items()
    }


def _column_means(table: Floats) -> Floats:
    """Means (M,) over the rows that are present; NaN for a column without any."""
    present = ~np.isnan(table)
    count = present.sum(axis=0)
    return np.where(count > 0, np.where(present, table, 0.0).sum(axis=0) / np.maximum(count, 1), np.nan)
