"""Rank a bank under one person's criteria, say when a ranking is not valid, and explain it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import expit

from crm.criteria.counting import MEASURES
from crm.leaderboard.bank.bank import Bank
from crm.leaderboard.bank.opening import in_turns
from crm.leaderboard.matrix import COUNTED
from crm.leaderboard.outcomes import LEAST_QUERIES, Outcomes
from crm.leaderboard.own_words import AT_ODDS, Understood, weights_of
from crm.leaderboard.ranking import Leaderboard, compare, may_be_first
from crm.leaderboard.validity import BankFlaws
from crm.page.profile import Profile
from crm.page.scorers import Scorer
from crm.report.statistics import Floats
from crm.schema import short

MOST_UNREAD = 0.2
"""Share of comparisons without a verdict above which a ranking is not valid."""
SEED = 1
"""Of the order of queries, as ``bank.seed`` has it, and of bootstrap intervals, the same for everybody."""


@dataclass(frozen=True)
class Ranking:
    """Models of ``part``, as one person sees them; ``board`` is ``None`` where there are no scores to rank by."""

    part: Bank
    outcomes: Outcomes
    board: Leaderboard | None
    understood: tuple[Understood, ...] = ()
    """What clauses of the profile are read as, where the scorer says so."""
    not_understood: tuple[str, ...] = ()
    """Lines of the profile that say nothing to the judge."""
    advice: str = ""
    """What to do where no line is understood; empty where one is."""
    shares: Floats = field(default_factory=lambda: np.empty((0, 0)))
    """(N, M): what each line adds to the mean log-odds of each of ``outcomes.models``."""
    flaws: Mapping[str, Sequence[tuple[str, ...]]] = field(default_factory=dict)
    """By model, those of its flawed responses that are ranked on: `crm.leaderboard.validity`."""

    @property
    def used(self) -> Outcomes:
        """On the queries that it ranks on: on others a model has no score, or none could be read."""
        return self.board.outcomes if self.board else self.outcomes

    @property
    def failed(self) -> int:
        """Comparisons without a verdict: they count as lost, unless nobody could be read on their query."""
        return 0 if self.advice else int(self.outcomes.unread.sum())

    def rows(self) -> list[dict[str, Any]]:
        """A row a model, best first: all of its `Row`, with places that agree with ``may_be_first``.

        ``log_odds`` is the mean over questions, and ``shares`` what each line of the profile adds to it. ``flawed`` is
        how many responses have a flaw, and ``flaws`` how many have which.
        """
        if self.board is None:
            return []
        mean, first = np.nan_to_num(self.used.logits).mean(axis=0).tolist(), may_be_first(self.used.wins).tolist()
        columns = dict(zip(self.used.models, zip(first, mean, *self.shares.tolist(), strict=True), strict=True))
        found = []
        for row in self.board.rows:
            (leads, odds, *shares), flaws = columns[row.model], self.flaws[row.model]
            low = 1 if leads else max(2, row.rank_low)
            more = {"flawed": len(flaws), "flaws": Counter(kind for kinds in flaws for kind in kinds)}
            own = {"rank_low": low, "may_be_first": leads, "log_odds": odds, "shares": shares}
            found.append(vars(row) | own | more)
        return found

    def counted(self, profile: Profile) -> list[str]:
        """With which weight every line counts, or where its clauses were read, each of them."""
        found = []
        for line, by in zip(*profile.signed, strict=True):
            read = [each for each in self.understood if each.line == line]
            if line in self.not_understood:
                found.append(f"0 x {line} ({next(each.why for each in read if each.why)})")
            else:
                found += [each.counted for each in read] or [f"{by:g} x {line}"]
        return found


class Ranker:
    """Rankings of one bank by one scorer, for any number of threads."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer, self.bank = scorer, scorer.bank
        self._row = {query.id: row for row, query in enumerate(self.bank.queries)}
        self._flaws = BankFlaws(scorer.bank)
        self._part = lru_cache(16)(self._select)  # to check all texts of a large bank takes a quarter of a second

    def select(self, profile: Profile) -> Bank:
        """The part of the bank that ``profile`` asks about, queries in turns over topics.

        Raises ``ValueError`` for topics or models that the bank does not have.
        """
        baseline = profile.baseline or self.bank.baseline
        return self._part(baseline, profile.topics, profile.queries, profile.lines if profile.drop_flawed else None)

    def rank(self, profile: Profile) -> Ranking:
        """The ranking. Raises ``ValueError`` for what the bank does not have or the judge cannot read."""
        part, lines = self.select(profile), profile.lines
        lost = self.scorer.not_understood(lines)  # reads lines of several people together, which outcomes does not
        outcomes = self.scorer.outcomes(*profile.signed, part)
        board = Leaderboard(outcomes) if outcomes.readable.any() else None
        read = self.scorer.understood(*profile.signed) if lines else ()
        wanted = weights_of(read)
        advice = ""
        if len(lost) == len(lines):
            first = next((each for each in read if each.why), None)
            advice = str(first or f"Say what you care about in an answer, such as “{self.scorer.examples[0]}”.")
        if board is None and wanted and not any(wanted.values()):
            advice = f"Your lines {AT_ODDS}: take one away."
        found = Ranking(part, outcomes, board, tuple(read), lost, advice, self._shares(profile, board))
        used, flaws = found.used, self._flaws.under(lines)
        own = {name: [flaws[each, name] for each in used.queries if (each, name) in flaws] for name in used.models}
        return replace(found, flaws=own)

    def _shares(self, profile: Profile, board: Leaderboard | None) -> Floats:
        """(N, M): mean log-odds against the baseline by each line alone, over the queries of ``board``."""
        if not profile.lines or board is None:
            return np.empty((0, 0))
        lines, weights = profile.signed
        rows, columns = [self._row[query] for query in board.outcomes.queries], board.outcomes.models
        places = np.ix_(range(len(lines)), rows, [self.bank.authors.index(name) for name in columns])
        own = self.scorer.scores(lines)[places].astype(np.float64)
        return np.asarray(np.nan_to_num(own - own[..., -1:]).mean(axis=1) * np.array(weights)[:, None])

    def _select(self, baseline: str, topics: tuple[str, ...], number: int, without: tuple[str, ...] | None) -> Bank:
        """Without queries to which a response is flawed, under the lines ``without``; None leaves them in."""
        queries = in_turns(self.bank.select(topics).queries, SEED)
        if without is not None:
            flawed = {query for query, _ in self._flaws.under(without)}
            queries = [query for query in queries if query.id not in flawed]
        if not queries:
            raise ValueError("drop_flawed: to each of these questions some model has a flawed response; keep them")
        return replace(self.bank.of_queries(queries[: number or len(queries)]), baseline=baseline)


def why_invalid(ranking: Ranking) -> str:
    """Why this ranking should not be shown; empty where it may be."""
    part = ranking.part
    comparisons = len(part.queries) * (len(part.authors) - 1)
    return refusal(len(part.queries), len(ranking.used.queries), ranking.failed, comparisons) or ranking.advice


def refusal(queries: int, left: int, failed: int, comparisons: int) -> str:
    """Why not to rank on what is ``left`` of queries with ``failed`` comparisons; empty where it may be done."""
    if left < LEAST_QUERIES:
        few = "one question is chosen" if queries == 1 else f"{queries} questions are chosen"
        few = few if queries < LEAST_QUERIES else f"{left} of {queries} questions have a score of every model"
        return f"Only {few}, and a ranking needs {LEAST_QUERIES}: choose a higher number of questions, or more topics."
    if failed > MOST_UNREAD * comparisons:
        share = f"{failed:,} of {comparisons:,} comparisons"
        return f"The judge could not read {share}, so that a ranking would rest on what is left by chance."
    return ""


def duels(ranking: Ranking, model: str) -> list[dict[str, Any]]:
    """A row a query on which ``model`` was read, the most clearly won first; ``probability`` is that it is preferred.

    Raises ```ValueError``` for another model.
    """
    part = ranking.part
    if model not in part.responses or model == part.baseline:
        others = ", ".join(name for name in part.authors if name != part.baseline)
        why = "is the baseline, which has no comparison with itself" if model == part.baseline else "is not ranked here"
        raise ValueError(f"model: {short(model)} {why}; choose one of {others}")
    used = ranking.used
    chances = dict(zip(used.queries, expit(used.logits[:, used.models.index(model)]).tolist(), strict=True))
    found = [
        {
            "query_id": query.id,
            "query": "\n\n".join(turn.content for turn in query.prompt),
            "response": part.responses[model][query.id],
            "baseline_response": part.responses[part.baseline][query.id],
            "probability": chances[query.id],
        }
        for query in part.queries
        if not math.isnan(chances.get(query.id, math.nan))
    ]
    return sorted(found, key=lambda duel: (-duel["probability"], duel["query_id"]))


def typical(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of `duels`, the win and the loss in the middle; a tie where there is neither."""
    wins = [duel for duel in found if duel["probability"] > 0.5]
    losses = [duel for duel in found if duel["probability"] < 0.5]
    return [group[len(group) // 2] for group in (wins, losses) if group] or list(found[:1])


def counts(ranking: Ranking, duel: Mapping[str, Any]) -> dict[str, list[float]]:
    """What the model's response and the baseline's have of each criterion that counts and was counted."""
    asked = (each.criterion for each in ranking.understood if not each.why and each.scored_by == COUNTED)
    found = {}
    for name, measure in ((str(name), MEASURES[str(name)]) for name in asked):
        both = [measure.count(duel[text]) for text in ("response", "baseline_response")]
        if np.isfinite(both).all():
            found[f"{name} in 100 words" if measure.kind == "rate" else name] = both
    return found


def change(first: Leaderboard, second: Leaderboard) -> dict[str, Any]:
    """Two rankings side by side: Kendall's tau with its 95 % interval, and a row a model, the greatest gain first.

    Raises ```ValueError``` for rankings of other models or without a query in common.
    """
    tau = compare(first, second, SEED)
    later = {row.model: row for row in second.rows}
    pairs = [(row, later[row.model]) for row in first.rows]
    rows = [
        {"model": one.model, "rank_first": one.rank, "rank_second": two.rank, "change": two.win_rate - one.win_rate}
        for one, two in pairs
    ]
    return {"tau": tau.mean, "low": tau.low, "high": tau.high, "models": sorted(rows, key=lambda row: -row["change"])}
