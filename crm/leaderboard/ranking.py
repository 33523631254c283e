"""Matches of a bank in; a leaderboard out: who won which query, win rates with intervals, ranks, tied groups."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from crm.leaderboard.racing import Membership, Standing
from crm.leaderboard.views import view_of
from crm.report.statistics import Floats, Interval, cluster_interval, holm, mean_interval
from crm.schema import Match


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
        self.baseline = check_matches(matches)
        self.standing = standing
        self.matches = on_readable_queries(matches) if standing is None else tuple(matches)
        self.left_out = len({match.query_id for match in matches}) - len({match.query_id for match in self.matches})
        self.unread = Counter(match.candidate for match in self.matches if match.preference_logit is None)
        self.wins = win_table(self.matches)
        if standing is None:
            refuse_missing(self.wins)
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
        return view_of(self, view, sort, ascending)

    def _rows(self, significance: float) -> list[Row]:
        rates = self.wins.mean()
        names = sorted(rates.index, key=lambda name: (-rates[name], name))
        worse = significant_pairs(self.wins[names], significance)
        words = mean_words_of(self.matches)
        by_topic = topic_intervals(self.matches)
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
        rates, words, verdicts = self.wins.mean(), mean_words_of(self.matches), standing.verdicts
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
