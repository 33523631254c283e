"""Leaderboards of outcomes: win rates with intervals, Bradley-Terry strengths, ranks, tied groups, tables.

Letters: N queries, M models, P pairs of models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy import optimize, special

from crm.leaderboard.outcomes import Flags, Outcomes
from crm.report.statistics import Floats, Interval, bootstrap_interval, holm, rank_correlation, wilson

LIMIT = 20.0
"""Largest strength in nats that a fit may reach; a model that always wins would otherwise run to infinity."""
FAR = 14.0
"""Nats from which on a fit has no finite end (a model that always wins): it stops somewhere below `LIMIT`."""


def bradley_terry(outcomes: Outcomes) -> tuple[dict[str, float], str]:
    """Strengths in nats, baseline 0, from pair probabilities; and which pairs were used, ``all`` or ``baseline``.

    Where the judge has scores, all pairs of models are compared on each query (sigmoid of the score difference);
    otherwise each candidate meets the baseline only, and its strength is the logit of its win rate. A model that could
    not be read on a query has lost there to everybody who could. One that always wins (loses) has strength (minus)
    infinity.
    """
    if outcomes.scores is None:
        pairs, strengths = "baseline", special.logit(np.nanmean(outcomes.wins[:, :-1], axis=0))
    else:
        pairs, strengths = "all", _fit(*_all_pairs(outcomes.scores))
    strengths = np.where(np.abs(strengths) >= FAR, np.copysign(np.inf, strengths), strengths)
    return {outcomes.baseline: 0.0, **dict(zip(outcomes.models, strengths.tolist(), strict=False))}, pairs


def elo(strength: float) -> float:
    """A strength in nats on the customary scale: the baseline has 1000, 400 points are odds of ten to one."""
    return 1000 + 400 / float(np.log(10)) * strength


def _all_pairs(scores: Floats) -> tuple[Floats, Floats]:
    """Expected wins and meetings (M, M), filled for row < column, over the queries that both models answered.

    ``scores`` (Q, M): minus infinity, where the judge could not read, is below every score; two of them do not meet.
    """
    by_model = np.ascontiguousarray(scores.T)
    won, met = np.zeros((2, len(by_model), len(by_model)))
    for row in range(len(by_model) - 1):
        with np.errstate(invalid="ignore"):  # infinity minus infinity is the NaN that is meant
            chance = special.expit(by_model[row] - by_model[row + 1 :])
        won[row, row + 1 :] = np.nansum(chance, axis=1)
        met[row, row + 1 :] = np.count_nonzero(~np.isnan(chance), axis=1)
    return won, met


def _fit(won: Floats, met: Floats) -> Floats:
    """Strengths (M - 1,) within [-LIMIT, LIMIT] by `_all_pairs`, a logistic regression; the last model's is 0."""

    def loss(free: Floats) -> tuple[float, Floats]:
        strengths = np.append(free, 0.0)
        logit = strengths[:, None] - strengths
        value = (met * np.logaddexp(0, logit) - won * logit).sum()
        slope = met * special.expit(logit) - won
        return float(value / met.sum()), (slope.sum(axis=1) - slope.sum(axis=0))[:-1] / met.sum()

    options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 10_000, "maxfun": 100_000}
    start, bounds = np.zeros(len(met) - 1), [(-LIMIT, LIMIT)] * (len(met) - 1)
    found = optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(found.x, dtype=np.float64)


SIGNIFICANCE = 0.05


@dataclass(frozen=True)
class Row:
    """One model of a leaderboard.

    ``rank`` 1 is best; ``rank_low`` is 1 + the number of models that are significantly better, and equal for a group;
    ``rank_high`` adds those that are not significantly different, ``tied_with``; ``win_rate`` in [0, 1] against the
    baseline, with its 95 % limits (None for the baseline itself) over ``n`` queries, of which ``unread`` could not be
    read by the judge and count as lost; ``mean_words`` is the mean length; ``topics`` are win rates by topic.
    """

    rank: int
    rank_low: int
    rank_high: int
    model: str
    win_rate: float
    low: float | None
    high: float | None
    n: int
    unread: int
    mean_words: float
    tied_with: tuple[str, ...]
    topics: Mapping[str, float]


class Leaderboard:
    """Win rates of all candidates against the baseline.

    ``rows`` are sorted best first; ``wins`` is the table (queries, models) of win probabilities: 0.5 for the baseline,
    0 where the judge could not read a model. Queries on which no model could be read, or a comparison got no answer,
    are left out for all (``left_out`` counts them, ``unanswered`` the comparisons of each model): rates on different
    queries do not order models. ``given`` has all queries. Raises ``ValueError`` where none is left.
    """

    def __init__(self, given: Outcomes) -> None:
        self.given, self.unanswered = given, _count(given.models, ~given.answered)
        answered: Flags = np.asarray(given.answered.all(axis=1))
        if not answered.any():
            worst = int(given.answered.sum(axis=0).argmin())
            few = f"{given.models[worst]!r} has the fewest answers, {given.answered[:, worst].sum()}"
            why = f"on none of {len(given.queries)} queries was every model's comparison answered; {few}"
            raise ValueError(f"bank: {why}; ask again for what is missing, or leave that model out")
        rows = answered & given.readable
        if not rows.any():
            raise ValueError("bank: the judge could read none of its responses; shorten them or take another judge")
        self.outcomes = given.on(rows)
        self.left_out = int((~rows).sum())
        self.baseline = given.baseline
        self.unread = _count(given.models, self.outcomes.unread)
        self.topics = sorted(set(self.outcomes.topics))
        self.rows = self._rows()

    @cached_property
    def wins(self) -> pd.DataFrame:
        """Queries by models, both sorted, the baseline last."""
        return pd.DataFrame(self.outcomes.wins, index=list(self.outcomes.queries), columns=list(self.outcomes.models))

    def explain_unread(self) -> str:
        """What could not be read or got no answer, and how it counts, in one line; empty where all was read."""
        few = ", ".join(f"{name} {count}" for name, count in self.unanswered.most_common(5))
        unknown = self.given.unknown
        unanswered = f"{self.unanswered.total()} comparisons {unknown} and are not known ({few})"
        unread = (
            f"{self.unread.total()} comparisons of {len(self.unread)} models could not be read by the judge and count "
            "as lost (column unread)"
        )
        left_out = f"{self.left_out} queries are left out for all: one comparison {unknown}, or none could be read"
        parts = {unanswered: self.unanswered, unread: self.unread, left_out: self.left_out}
        return "; ".join(text for text, lacking in parts.items() if lacking)

    def win_rates(self) -> dict[str, float]:
        """Win rate of every model, the baseline (0.5) among them, best first."""
        return {row.model: row.win_rate for row in self.rows}

    def frame(self) -> pd.DataFrame:
        """The main table, best first, numbers unformatted."""
        table = pd.DataFrame(map(vars, self.rows)).drop(columns="topics").astype({"low": float, "high": float})
        return table.assign(tied_with=table["tied_with"].map(", ".join), baseline=self.baseline)

    def bradley_terry(self) -> pd.DataFrame:
        """Ranked by strength on the Elo scale, with the raw win rate and the length beside it."""
        strengths, pairs = bradley_terry(self.outcomes)
        table = pd.DataFrame({"model": row.model, "elo": elo(strengths[row.model]), "win_rate": row.win_rate,
                              "unread": row.unread, "mean_words": row.mean_words} for row in self.rows)  # fmt: skip
        table = table.sort_values("elo", ascending=False, kind="stable", ignore_index=True)
        table.insert(0, "rank", range(1, len(table) + 1))
        return table.assign(pairs=pairs)

    def _rows(self) -> list[Row]:
        wins, models, baseline = self.outcomes.wins, self.outcomes.models, len(self.outcomes.models) - 1
        mean, low, high = (column.tolist() for column in win_rate_limits(wins))
        words = self.outcomes.words.mean(axis=0).tolist()
        order = sorted(range(len(models)), key=lambda place: (-mean[place], models[place]))
        better = significantly_better(wins[:, order])
        tied, worse_than = ~(better | better.T | np.eye(len(order), dtype=np.bool_)), better.sum(axis=0).tolist()
        names, of = np.array([models[place] for place in order], dtype=object), np.array(self.outcomes.topics)
        topics = {topic: wins[of == topic].mean(axis=0).tolist() for topic in self.topics}
        return [
            Row(
                rank=rank + 1,
                rank_low=1 + worse_than[rank],
                rank_high=1 + worse_than[rank] + int(tied[rank].sum()),
                model=models[place],
                win_rate=mean[place],
                low=None if place == baseline else low[place],
                high=None if place == baseline else high[place],
                n=len(wins),
                unread=self.unread[models[place]],
                mean_words=words[place],
                tied_with=tuple(names[tied[rank]]),
                topics={topic: rates[place] for topic, rates in topics.items()},
            )
            for rank, place in enumerate(order)
        ]


def compare(board: Leaderboard, other: Leaderboard | Mapping[str, float], seed: int, resamples: int = 1000) -> Interval:
    """Kendall's tau between a leaderboard and another one, or true win rates by model, with a bootstrap interval.

    The bootstrap is over the queries that two leaderboards share, the same for both. Truth may leave out the baseline.
    Raises ``ValueError`` for other models or no query in common.
    """
    own = board.wins
    if isinstance(other, Leaderboard):
        its = other.wins
    else:
        its = pd.DataFrame([other] * len(own), index=own.index)
        own = own[[name for name in own if name in other or name != board.baseline]]
    if only := sorted(set(own) ^ set(its)):
        raise ValueError(f"models: the same ones are needed on both sides; in one only: {', '.join(only)}")
    shared = own.index.intersection(its.index).sort_values()
    if shared.empty:
        raise ValueError("queries: the leaderboards have none in common; rank both on one bank")
    one, two = (table.loc[shared, sorted(own)].to_numpy() for table in (own, its))

    def tau(drawn: Any) -> float:
        return rank_correlation(one[drawn].mean(axis=0), two[drawn].mean(axis=0))

    return bootstrap_interval(tau, len(shared), seed, resamples)


def _count(models: Sequence[str], cells: Flags) -> Counter[str]:
    """True ``cells`` (Q, M) by model, where there are any."""
    return +Counter(dict(zip(models, cells.sum(axis=0).tolist(), strict=True)))  # + drops zeros


def win_rate_limits(wins: Floats) -> tuple[Floats, Floats, Floats]:
    """Means of ``wins`` (N, M), none NaN, one a column, and their 95 % limits: Student's t, kept within [0, 1].

    They are no narrower than if a share that N queries may not show (Wilson's limit of 0 in N) had been lost, or won.
    """
    n, by_model = len(wins), np.ascontiguousarray(wins.T)  # in this order a model's sums do not depend on the others
    mean = by_model.sum(axis=1) / n
    error = np.sqrt((((by_model - mean[:, None]) / n) ** 2).sum(axis=1) * (n / max(n - 1, 1)))
    half, unseen = special.stdtrit(max(n - 1, 1), 0.975) * error, wilson(0.0, n)[1]
    low, high = mean - np.maximum(half, mean * unseen), mean + np.maximum(half, (1 - mean) * unseen)
    return mean, np.maximum(low, 0.0), np.minimum(high, 1.0)


def significantly_better(wins: Floats) -> Flags:
    """(M, M): is the row's model better than the column's? Paired t-tests over ``wins`` (N, M), none NaN, with Holm's
    correction over all pairs.
    """
    left, right = np.triu_indices(wins.shape[1], k=1)
    significant = holm(paired_p(wins[:, left] - wins[:, right])) < SIGNIFICANCE
    mean = wins.mean(axis=0)
    ahead = mean[left] > mean[right]
    better = np.zeros((wins.shape[1],) * 2, dtype=np.bool_)
    better[np.where(ahead, left, right)[significant], np.where(ahead, right, left)[significant]] = True
    return better


def may_be_first(wins: Floats) -> Flags:
    """(M,): is no other model significantly better than this one? The best is among these with 95 % confidence.

    Multiple comparisons with the best (Hsu 1996): one-sided paired t-tests over ``wins`` (N, M), none NaN, each model
    against the M - 1 others with Bonferroni's correction.
    """
    found = np.ones(wins.shape[1], dtype=np.bool_)
    for place in range(len(found)):
        ahead = wins - wins[:, [place]]
        p = paired_p(ahead) / 2 * (len(found) - 1)
        found[place] = not (p[ahead.mean(axis=0) > 0] < SIGNIFICANCE).any()
    return found


def paired_p(differences: Floats) -> Floats:
    """Two-sided p-values (P,) of paired differences (N, P): as ``scipy.stats.ttest_1samp`` of every column.

    None is below that of a sign test on which all agree, so nearly equal differences on few queries are no evidence;
    nor is a difference on fewer than two queries, or of nothing.
    """
    n, mean = len(differences), differences.mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):  # a constant difference has no error
        t = mean / (differences.std(axis=0, ddof=min(1, n - 1)) / np.sqrt(n))
    p = np.maximum(2 * special.stdtr(max(n - 1, 1), -np.abs(t)), 2.0 ** (1 - n))
    return np.where((n < 2) | ~differences.any(axis=0), 1.0, p)
