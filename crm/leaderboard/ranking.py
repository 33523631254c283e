"""Matches or outcomes in; a leaderboard out: who won which query, win rates with intervals, ranks, tied groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from crm.leaderboard.outcomes import Outcomes, of_matches
from crm.leaderboard.racing import Membership, Standing
from crm.leaderboard.views import records_of, view_of
from crm.leaderboard.win_statistics import significantly_better, topic_intervals, win_rate_intervals
from crm.report.statistics import Floats, Interval
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
    """Win rates of all candidates of ``matches`` against their one baseline; they may come as `Outcomes` at once.

    ``rows`` are sorted best first; ``wins`` is the table (queries, models) of win probabilities: 0.5 for the baseline,
    0 where the judge could not read a model, NaN where a race did not ask. Queries on which no model could be read say
    nothing and are left out of everything (``left_out`` counts them). Raises ``ValueError`` for no matches, none that
    was read, two baselines, the baseline as its own candidate, a candidate that appears twice on a query, or, but after
    a race, one that lacks a match on a query: rates on different queries do not order models.

    With the ``standing`` of a race, models that were read on fewer queries than others stand by its verdicts first
    (in, open, out) and by their win rates only then.
    """

    def __init__(
        self, matches: Sequence[Match] | Outcomes, significance: float = 0.05, standing: Standing | None = None
    ) -> None:
        given = matches if isinstance(matches, Outcomes) else of_matches(matches)
        self.standing = standing
        self.outcomes = _on_readable_queries(given) if standing is None else given
        self.baseline = given.baseline
        self.left_out = len(given.queries) - len(self.outcomes.queries)
        lost = self.outcomes.unread.sum(axis=0).tolist()
        self.unread = Counter({name: count for name, count in zip(given.models, lost, strict=True) if count})
        if standing is None:
            _refuse_missing(self.outcomes)
        self.topics = sorted(set(self.outcomes.topics))
        self.rows = self._rows(significance) if standing is None else self._raced(standing)

    @cached_property
    def wins(self) -> pd.DataFrame:
        """Queries by models, both sorted, the baseline last."""
        return pd.DataFrame(self.outcomes.wins, index=list(self.outcomes.queries), columns=list(self.outcomes.models))

    @cached_property
    def matches(self) -> tuple[Match, ...]:
        """What it rests on, as records."""
        return tuple(self.outcomes.matches())

    def shared(self) -> Leaderboard:
        """The leaderboard of the queries on which every model was read; ``ValueError`` where there are none."""
        whole = np.asarray(self.outcomes.asked.all(axis=1))
        if not whole.any():
            raise ValueError("matches: on no query was every model asked about; score the whole bank (settle_top=0)")
        return Leaderboard(self.outcomes.on(whole))

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

    def records(self) -> list[dict[str, Any]]:
        """A row a model, best first: what `frame` has, the last rank that it may have, its length-controlled win rate
        where there is more than one query, and one a topic. Made without pandas, in a millisecond; not after a race.
        """
        return records_of(self)

    def _rows(self, significance: float) -> list[Row]:
        wins, models = self.outcomes.wins, self.outcomes.models
        intervals, words = win_rate_intervals(wins), _mean_words(self.outcomes)
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

    def _raced(self, standing: Standing) -> list[Row]:
        wins, models, verdicts = self.outcomes.wins, self.outcomes.models, standing.verdicts
        rates, counts = np.nanmean(wins, axis=0).tolist(), self.outcomes.asked.sum(axis=0).tolist()
        words, groups = _mean_words(self.outcomes), ("in", "open", "out")
        order = sorted(
            range(len(models)), key=lambda place: (groups.index(verdicts[models[place]]), -rates[place], models[place])
        )
        rows: list[Row] = []
        for place in order:
            name = models[place]
            whole = name != self.baseline and counts[place] == standing.queries
            interval = win_rate_intervals(wins[:, [place]])[0] if whole else None
            low = standing.top + 1 if verdicts[name] == "out" else 1
            numbers = (rates[place], interval, counts[place], words[place], len(rows) + 1, low)
            rows.append(Row(name, *numbers, (), {}, verdicts[name], self.unread[name]))
        return rows


def _on_readable_queries(outcomes: Outcomes) -> Outcomes:
    readable = outcomes.readable
    if not readable.any():
        raise ValueError("matches: the judge could read none of them; shorten the responses or take another judge")
    return outcomes.on(readable)


def _refuse_missing(outcomes: Outcomes) -> None:
    """Raise ``ValueError`` where a model has no match on a query that others have one on."""
    for row, column in np.argwhere(~outcomes.asked).tolist()[:1]:
        raise ValueError(
            f"matches: {outcomes.models[column]!r} has none on query {outcomes.queries[row]!r}, others have; give one "
            "for every query, without a logit where the judge could not read it"
        )


def _mean_words(outcomes: Outcomes) -> list[float]:
    """(M,) mean lengths in words, over the queries on which a model was asked about."""
    known = np.where(outcomes.asked, outcomes.words, 0.0)
    means: Floats = known.sum(axis=0) / outcomes.asked.sum(axis=0)
    return [float(mean) for mean in means]
