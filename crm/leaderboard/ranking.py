"""Matches of a bank in; a leaderboard out: win rates with intervals, tied groups, topics, fitted views, agreement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from crm.leaderboard.racing import Membership, Standing
from crm.leaderboard.ratings import bradley_terry, elo, length_controlled
from crm.leaderboard.win_table import (
    check_matches,
    mean_words_of,
    on_readable_queries,
    refuse_missing,
    significant_pairs,
    topic_intervals,
    win_rate_interval,
    win_table,
)
from crm.report.statistics import (
    Interval,
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
