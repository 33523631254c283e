"""Leaderboards of outcomes: win rates with intervals, ranks, tied groups, and their tables.

Letters: N queries, M models, P pairs of models.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from crm.leaderboard.outcomes import Flags, Outcomes, of_matches
from crm.leaderboard.ratings import LengthControl, bound, bradley_terry, elo, length_control
from crm.report.statistics import Floats, Interval, holm, wilson
from crm.report.tables import distinct, number
from crm.schema import Match

CONSTANT = 1e-12
"""Values that differ by less are equal."""


@dataclass(frozen=True)
class Row:
    """One model of a leaderboard.

    ``win_rate`` in [0, 1] against the baseline, with its interval (None for the baseline itself) over ``n`` queries,
    of which ``unread`` could not be read by the judge and count as lost;
    ``rank`` 1 is best; ``rank_low`` is 1 + the number of models that are significantly better, and equal for a group;
    ``tied_with`` are the models that are not significantly different; ``mean_words`` is the mean length.
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
    unread: int = 0

    def record(self) -> dict[str, Any]:
        """Cells of the main table; the baseline has no limits."""
        low, high = (self.interval.low, self.interval.high) if self.interval else (None, None)
        names = ("rank", "rank_low", "model", "win_rate", "low", "high", "n", "unread", "mean_words", "tied_with")
        found = vars(self) | {"low": low, "high": high, "tied_with": ", ".join(self.tied_with)}
        return {name: found[name] for name in names}


class Leaderboard:
    """Win rates of all candidates of ``matches`` against their one baseline; they may come as `Outcomes` at once.

    ``rows`` are sorted best first; ``wins`` is the table (queries, models) of win probabilities: 0.5 for the baseline,
    0 where the judge could not read a model. Queries on which no model could be read are left out of everything
    (``left_out`` counts them). So are those on which a comparison got no answer
    (``incomplete`` counts them, ``unanswered`` the comparisons of each model): rates on different queries do not order
    models. Raises ``ValueError`` for no matches, none that was read, no query answered for all, two baselines, the
    baseline as its own candidate, a candidate that appears twice on a query, or one that lacks a match on a query.
    """

    def __init__(self, matches: Sequence[Match] | Outcomes, significance: float = 0.05) -> None:
        given = matches if isinstance(matches, Outcomes) else of_matches(matches)
        if not isinstance(matches, Outcomes):
            _check_complete(matches, given)
        self.unanswered = _count(given.models, ~given.answered)
        whole = given.on(_answered_for_all(given))
        if not whole.readable.any():
            raise ValueError("matches: the judge could read none of them; shorten the responses or take another judge")
        self.outcomes = whole.on(whole.readable)
        self.incomplete = len(given.queries) - len(whole.queries)
        self.left_out = len(whole.queries) - len(self.outcomes.queries)
        self.baseline = given.baseline
        self.unread = _count(given.models, self.outcomes.unread)
        self.topics = sorted(set(self.outcomes.topics))
        self.rows = self._rows(significance)

    @cached_property
    def wins(self) -> pd.DataFrame:
        """Queries by models, both sorted, the baseline last."""
        return pd.DataFrame(self.outcomes.wins, index=list(self.outcomes.queries), columns=list(self.outcomes.models))

    @cached_property
    def length_control(self) -> LengthControl:
        """Length-controlled win rates of the candidates with limits, or why there are none."""
        return length_control(self.outcomes)

    def explain_unread(self) -> str:
        """What could not be read or got no answer, and how it counts, in one line; empty where all was read."""
        parts = []
        if self.unanswered:
            few = ", ".join(f"{name} {count}" for name, count in self.unanswered.most_common(5))
            parts.append(
                f"{self.unanswered.total()} comparisons got no answer and are not known ({few}): the {self.incomplete} "
                "queries that lack one are left out for all"
            )
        if self.unread:
            parts.append(
                f"{sum(self.unread.values())} comparisons of {len(self.unread)} models could not be read by the judge "
                "and count as lost (column unread)"
            )
        if self.left_out:
            parts.append(f"{self.left_out} queries on which none could be read are left out for all")
        return "; ".join(parts)

    def win_rates(self) -> dict[str, float]:
        """Win rate of every model, the baseline (0.5) among them, best first."""
        return {row.model: row.win_rate for row in self.rows}

    def frame(self, view: str = "win_rate", sort: str = "rank", ascending: bool | None = None) -> pd.DataFrame:
        """A table of one of `VIEWS`, numbers unformatted, sorted by the column ``sort``.

        By default ranks and names rise and all other columns fall. ``topics`` has a column per topic (win rates);
        ``bradley_terry`` and ``length_controlled`` have their own ranks. Raises ``ValueError`` for an
        unknown view or column.
        """
        if view not in VIEWS:
            raise ValueError(f"view: {view!r} is not one of {', '.join(VIEWS)}")
        table: pd.DataFrame = _VIEWS[view](self)
        if sort not in table.columns:
            raise ValueError(f"sort: {sort!r} is not a column of {view}, choose one of {', '.join(table.columns)}")
        rising = sort in ("rank", "rank_low", "model") if ascending is None else ascending
        return table.sort_values(sort, ascending=rising, kind="stable").reset_index(drop=True)

    def records(self) -> list[dict[str, Any]]:
        """A row a model, best first: the main table, the last rank that it may have, its length-controlled win rate
        where there is more than one query, and one a topic. Made without pandas, in a millisecond.
        """
        control, found = self.length_control, []
        for row in self.rows:
            record = row.record()
            record["rank_high"] = row.rank_low + len(row.tied_with)  # models that are not worse come before it
            own = 0.5 if row.model == self.baseline else control.rates[row.model]
            limits = control.low.get(row.model, math.nan), control.high.get(row.model, math.nan)
            for name, value in zip(("", "_low", "_high"), (own, *limits), strict=True):
                record[f"length_controlled{name}"] = None if math.isnan(value) else value
            found.append(record | _topic_rates(row, self, tuple(record)))
        return found

    def _rows(self, significance: float) -> list[Row]:
        wins, models = self.outcomes.wins, self.outcomes.models
        intervals = win_rate_intervals(wins)
        known = np.where(self.outcomes.answered, self.outcomes.words, 0.0)
        words = (known.sum(axis=0) / self.outcomes.answered.sum(axis=0)).tolist()
        order = sorted(range(len(models)), key=lambda place: (-intervals[place].mean, models[place]))
        better = significantly_better(wins[:, order], significance)
        tied, worse_than = ~(better | better.T | np.eye(len(order), dtype=np.bool_)), better.sum(axis=0).tolist()
        names = np.array([models[place] for place in order], dtype=object)
        topics = topic_intervals(wins, self.outcomes.topics)
        rows = []
        for rank, place in enumerate(order):
            name, first = models[place], models[place] == self.baseline
            numbers = (len(wins), words[place], rank + 1, 1 + worse_than[rank])
            about = (tuple(names[tied[rank]]), {} if first else topics[place])
            interval = None if first else intervals[place]
            rows.append(Row(name, intervals[place].mean, interval, *numbers, *about, unread=self.unread[name]))
        return rows


def _answered_for_all(outcomes: Outcomes) -> Flags:
    """(Q,); raises ``ValueError`` where no query is."""
    whole = np.asarray(outcomes.answered.all(axis=1))
    if not whole.any():
        worst = int(outcomes.answered.sum(axis=0).argmin())
        raise ValueError(
            f"matches: on none of {len(whole)} queries was every model's comparison answered; "
            f"{outcomes.models[worst]!r} has the fewest answers, {outcomes.answered[:, worst].sum()}; ask again for "
            "what is missing, or leave that model out (bank.without)"
        )
    return whole


def _count(models: Sequence[str], cells: Flags) -> Counter[str]:
    """True ``cells`` (Q, M) by model, where there are any."""
    counts = zip(models, cells.sum(axis=0).tolist(), strict=True)
    return Counter({name: count for name, count in counts if count})


def _check_complete(matches: Sequence[Match], outcomes: Outcomes) -> None:
    """Raise ``ValueError`` where a model has no match on a query that others have one on."""
    given = {(match.query_id, match.candidate) for match in matches}
    for query, model in product(outcomes.queries, outcomes.models[:-1]):
        if (query, model) not in given:
            raise ValueError(
                f"matches: {model!r} has none on query {query!r}, others have; give one for every query, without a "
                "logit where the judge could not read it and answered=False where no answer came"
            )


def win_rate_intervals(wins: Floats) -> list[Interval]:
    """95 % intervals of the means of ``wins`` (N, M), one a column, none NaN: Student's t, kept within [0, 1].

    Where all of a column are equal (a judge without doubt on few queries) the limits are Wilson's, not a point.
    """
    n, by_model = len(wins), np.ascontiguousarray(wins.T)  # in this order a model's sums do not depend on the others
    mean = by_model.sum(axis=1) / n
    constant = np.ptp(by_model, axis=1) < CONSTANT
    error = np.sqrt((((by_model - mean[:, None]) / n) ** 2).sum(axis=1) * (n / max(n - 1, 1)))
    half = special.stdtrit(max(n - 1, 1), 0.975) * error
    below, above = wilson(np.clip(mean, 0.0, 1.0), n)
    low = np.where(constant, np.minimum(below, mean), np.maximum(mean - half, 0.0))
    high = np.where(constant, np.maximum(above, mean), np.minimum(mean + half, 1.0))
    columns = (mean.tolist(), error.tolist(), low.tolist(), high.tolist())
    return [Interval(*numbers, n, n) for numbers in zip(*columns, strict=True)]


def topic_intervals(wins: Floats, topics: Sequence[str]) -> list[dict[str, Interval]]:
    """A mapping a column of ``wins`` (N, M): its win rate and interval by topic; ``topics`` (N,) are the queries'."""
    names, place = np.unique(np.array(topics, dtype=object), return_inverse=True)
    found = [win_rate_intervals(wins[place == topic]) for topic in range(len(names))]
    return [dict(zip(names, column, strict=True)) for column in zip(*found, strict=True)]


def significantly_better(wins: Floats, significance: float) -> Flags:
    """(M, M): is the row's model better than the column's? Paired t-tests over ``wins`` (N, M), none NaN, with Holm's
    correction over all pairs.
    """
    left, right = np.triu_indices(wins.shape[1], k=1)
    significant = holm(paired_p(wins[:, left] - wins[:, right])) < significance
    mean = wins.mean(axis=0)
    ahead = mean[left] > mean[right]
    better = np.zeros((wins.shape[1],) * 2, dtype=np.bool_)
    better[np.where(ahead, left, right)[significant], np.where(ahead, right, left)[significant]] = True
    return better


def paired_p(differences: Floats) -> Floats:
    """Two-sided p-values (P,) of paired differences (N, P): as ``scipy.stats.ttest_1samp`` of every column.

    A difference on fewer than two queries, or of nothing, is no evidence; a constant other difference, whose variance
    is 0, is judged by a sign test.
    """
    n, constant = len(differences), np.ptp(differences, axis=0) < CONSTANT
    error = differences.std(axis=0, ddof=min(1, n - 1)) / np.sqrt(n)
    t = differences.mean(axis=0) / np.where(constant, 1.0, error)
    p = np.where(constant, 2.0 ** (1 - n), 2 * special.stdtr(max(n - 1, 1), -np.abs(t)))
    return np.where((n < 2) | ~differences.any(axis=0), 1.0, p)


def _topic_rates(row: Row, board: Leaderboard, taken: Sequence[str]) -> dict[str, float | None]:
    """Win rates by topic; None on one that a model was not asked about.

    A topic that is called like a column in ``taken`` gets the name "topic ..." (and so does that name itself).
    """
    known = {topic: interval.mean for topic, interval in row.topics.items()}
    rates = dict.fromkeys(board.topics, 0.5) if row.model == board.baseline else known
    return {distinct(topic, "topic ", taken): rates.get(topic) for topic in board.topics}


def _win_rate(board: Leaderboard) -> pd.DataFrame:
    return pd.DataFrame(row.record() for row in board.rows).astype({"low": float, "high": float})


def _topics(board: Leaderboard) -> pd.DataFrame:
    first = ("rank", "model", "overall")
    return pd.DataFrame(
        dict(zip(first, (row.rank, row.model, row.win_rate), strict=True)) | _topic_rates(row, board, first)
        for row in board.rows
    )


def _bradley_terry(board: Leaderboard) -> pd.DataFrame:
    strengths, pairs = bradley_terry(board.outcomes)
    table = _fitted(board, elo={name: elo(value) for name, value in strengths.items()}).assign(pairs=pairs)
    table.insert(2, "bound", [bound(strengths[model]) for model in table["model"]])
    return table


def _length_controlled(board: Leaderboard) -> pd.DataFrame:
    found = board.length_control
    rates = {**found.rates, board.baseline: 0.5}
    table = _fitted(board, length_controlled=rates, low=found.low, high=found.high)
    return table.assign(length_coefficient=found.coefficient)


def _fitted(board: Leaderboard, **columns: Mapping[str, float]) -> pd.DataFrame:
    """Ranked by the first of ``columns``, with the raw win rate and the length beside it; last and without a rank are
    models that have no number there."""
    table = pd.DataFrame([(row.model, row.win_rate, row.unread, row.mean_words) for row in board.rows])
    table.columns = pd.Index(["model", "win_rate", "unread", "mean_words"])
    for place, (name, values) in enumerate(columns.items(), start=1):
        table.insert(place, name, table["model"].map(dict(values)).astype(float))
    first = next(iter(columns))
    order = table.assign(unknown=table[first].isna(), by=-table[first].fillna(table["win_rate"]))
    table = table.loc[order.sort_values(["unknown", "by", "model"]).index].reset_index(drop=True)
    known = table[first].notna()
    ranks = pd.Series(range(1, len(table) + 1)).where(known & (known.sum() > 1)).astype("Int64")
    table.insert(0, "rank", ranks.astype("int64") if known.all() else ranks)
    return table


def shown(frame: pd.DataFrame) -> pd.DataFrame:
    """For people: ``at least 4474`` where a rating has no finite value."""
    if "bound" not in frame:
        return frame
    if not any(frame["bound"]):
        return frame.drop(columns="bound")
    both = zip(frame["bound"], frame["elo"], strict=True)
    elos = [f"{limit} {value:.0f}" if limit else number(value) for limit, value in both]
    return frame.assign(elo=elos).drop(columns="bound")


_VIEWS: dict[str, Callable[[Leaderboard], pd.DataFrame]] = {
    "win_rate": _win_rate,
    "topics": _topics,
    "bradley_terry": _bradley_terry,
    "length_controlled": _length_controlled,
}
VIEWS = tuple(_VIEWS)
"""Names of the tables; the first is the leaderboard itself."""
