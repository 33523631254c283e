"""Matches or outcomes in; a leaderboard out: who won which query, win rates with intervals, ranks, tied groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from crm.leaderboard.outcomes import Flags, Outcomes, of_matches
from crm.leaderboard.ratings import LengthControl, length_control
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


class Leaderboard:
    """Win rates of all candidates of ``matches`` against their one baseline; they may come as `Outcomes` at once.

    ``rows`` are sorted best first; ``wins`` is the table (queries, models) of win probabilities: 0.5 for the baseline,
    0 where the judge could not read a model. Queries on which no model could be read say
    nothing and are left out of everything (``left_out`` counts them). So are those on which a comparison got no answer
    (``incomplete`` counts them, ``unanswered`` the comparisons of each model): rates on different queries do not order
    models. Raises ``ValueError`` for no matches, none that was read, no query answered for all, two baselines, the
    baseline as its own candidate, a candidate that appears twice on a query, or one that lacks a match on a query.
    """

    def __init__(self, matches: Sequence[Match] | Outcomes, significance: float = 0.05) -> None:
        given = matches if isinstance(matches, Outcomes) else of_matches(matches)
        if not isinstance(matches, Outcomes):
            _refuse_missing(matches)
        self.unanswered = _count(given.models, ~given.answered)
        whole = given.on(_answered_for_all(given))
        self.outcomes = _on_readable_queries(whole)
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
    def matches(self) -> tuple[Match, ...]:
        """What it rests on, as records."""
        return tuple(self.outcomes.matches())

    @cached_property
    def length_control(self) -> LengthControl:
        """Length-controlled win rates of the candidates with limits, or why there are none."""
        return length_control(self.outcomes)

    def explain_unread(self) -> str:
        """What could not be read or got no answer, and what became of it, in one line; nothing where all was read."""
        told = []
        if self.unanswered:
            few = ", ".join(f"{name} {count}" for name, count in self.unanswered.most_common(5))
            told.append(
                f"{self.unanswered.total()} comparisons got no answer and are not known ({few}): the {self.incomplete} "
                "queries that lack one are left out for all"
            )
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
        ``bradley_terry`` and ``length_controlled`` have their own ranks. Raises ``ValueError`` for an
        unknown view or column.
        """
        return view_of(self, view, sort, ascending)

    def records(self) -> list[dict[str, Any]]:
        """A row a model, best first: what `frame` has, the last rank that it may have, its length-controlled win rate
        where there is more than one query, and one a topic. Made without pandas, in a millisecond.
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


def _on_readable_queries(outcomes: Outcomes) -> Outcomes:
    readable = outcomes.readable
    if not readable.any():
        raise ValueError("matches: the judge could read none of them; shorten the responses or take another judge")
    return outcomes.on(readable)


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


def _refuse_missing(matches: Sequence[Match]) -> None:
    """Raise ``ValueError`` where a model has no match on a query that others have one on."""
    given = {(match.query_id, match.candidate) for match in matches}
    queries, models = (sorted(set(names)) for names in zip(*given, strict=True))
    for query, model in product(queries, models) if len(given) < len(queries) * len(models) else ():
        if (query, model) not in given:
            raise ValueError(
                f"matches: {model!r} has none on query {query!r}, others have; give one for every query, without a "
                "logit where the judge could not read it and answered=False where no answer came"
            )


def _mean_words(outcomes: Outcomes) -> list[float]:
    """(M,) mean lengths in words, over the queries on which the judge answered."""
    known = np.where(outcomes.answered, outcomes.words, 0.0)
    means: Floats = known.sum(axis=0) / outcomes.answered.sum(axis=0)
    return [float(mean) for mean in means]
