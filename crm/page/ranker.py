"""Rank a bank under one person's criteria, and say when a ranking is not valid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from crm.leaderboard.bank.bank import Bank, BankQuery, check_topics
from crm.leaderboard.bank.opening import in_turns
from crm.leaderboard.outcomes import Outcomes
from crm.leaderboard.ranking import Leaderboard
from crm.page.bodies import ProfileError
from crm.page.profile import SIMILAR, Profile
from crm.page.scorers import Scorer
from crm.schema import query_of

MOST_UNREAD = 0.2
"""Share of comparisons without a verdict above which a ranking is not valid."""
SEED = 1
"""Of the order of queries, the same for everybody."""
LEAST_QUERIES = 20
"""With fewer queries, intervals of a win rate are some 40 points wide."""


class Selector:
    """Chooses the part of a bank that a profile asks about."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        self._part = lru_cache(16)(self._select)  # to check all texts of a large bank takes a quarter of a second

    def select(self, profile: Profile) -> Bank:
        """The part that ``profile`` asks about, with the baseline and at least one other model.

        Queries are in turns over topics, or the most similar first. Raises `ProfileError` for topics or models that the
        bank does not have.
        """
        baseline = profile.baseline or self.bank.baseline
        return self._part(baseline, profile.models, profile.topics, profile.about, profile.queries)

    def _select(self, baseline: str, wanted: tuple[str, ...], topics: tuple[str, ...], about: str, number: int) -> Bank:
        for field, name in (("baseline", baseline), *(("models", name) for name in wanted)):
            if name not in self.bank.responses:
                raise ProfileError(f"{field}: {name!r} is not in the bank; there are {', '.join(self.bank.authors)}")
        models = [name for name in self.bank.authors if name in {baseline, *(wanted or self.bank.authors)}]
        if len(models) < 2:
            raise ProfileError(f"models: only the baseline {baseline!r} is left; choose at least one more")
        queries = self._similar(about) if about else in_turns(self._on_topics(topics), SEED, "reading order")
        kept = queries[: number or (SIMILAR if about else len(queries))]
        responses = {name: {query.id: self.bank.responses[name][query.id] for query in kept} for name in models}
        return Bank(self.bank.name, baseline, tuple(kept), responses)

    def _on_topics(self, topics: Sequence[str]) -> list[BankQuery]:
        try:
            wanted = check_topics(topics or self.bank.topics, self.bank.topics)
        except ValueError as error:
            raise ProfileError(str(error)) from None
        return [query for query in self.bank.queries if query.topic in wanted]

    def _similar(self, about: str) -> list[BankQuery]:
        """Queries that share words with a sentence, the nearest first."""
        words, vectors = self._words
        near = np.asarray((vectors @ words.transform([about]).T).toarray())[:, 0]
        found = [self.bank.queries[place] for place in np.argsort(-near, kind="stable") if near[place] > 0]
        if not found:
            raise ProfileError(f"about: no query of the bank shares a word with {about!r}; say it in other words")
        return found

    @cached_property
    def _words(self) -> tuple[TfidfVectorizer, Any]:
        """The vectorizer, and a row a query."""
        words = TfidfVectorizer(sublinear_tf=True, stop_words="english")
        return words, words.fit_transform([query_of(query.prompt) for query in self.bank.queries])


@dataclass(frozen=True)
class Ranking:
    """Models of ``part`` as ``profile`` asks for; ``board`` is ``None`` where there are no scores to rank by."""

    profile: Profile
    part: Bank
    outcomes: Outcomes
    board: Leaderboard | None
    not_understood: tuple[str, ...] = ()
    """Lines of the profile that say nothing to the judge."""
    advice: str = ""
    """What to do where no line is understood; empty where one is."""

    @property
    def failed(self) -> int:
        """Comparisons without a verdict: they count as lost, unless nobody could be read on their query."""
        return int(self.outcomes.unread.sum())

    def logits(self, model: str) -> dict[str, float]:
        """By query id: log-odds that the model's response is preferred to the baseline's, where it was read."""
        column = self.outcomes.logits[:, self.outcomes.models.index(model)].tolist()
        rows = zip(self.outcomes.queries, column, strict=True)
        return {query: value for query, value in rows if not math.isnan(value)}


class Ranker:
    """Rankings of one bank by one scorer, for any number of threads."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer, self.bank, self.selector = scorer, scorer.bank, Selector(scorer.bank)

    def rank(self, profile: Profile) -> Ranking:
        """The ranking. Raises `ProfileError` for what the bank does not have or the judge cannot read."""
        part, lines = self.selector.select(profile), profile.lines
        lost = self.scorer.not_understood(lines)  # reads lines of several people together, which outcomes does not
        try:
            outcomes = self.scorer.outcomes(*profile.signed, part)
        except ValueError as error:
            raise ProfileError(str(error)) from None
        board = Leaderboard(outcomes) if outcomes.readable.any() else None
        nothing = len(lost) == len(lines) and (lines or self.scorer.example)
        return Ranking(profile, part, outcomes, board, lost, self.scorer.advice(lines) if nothing else "")


def why_invalid(ranking: Ranking) -> str:
    """Why this ranking should not be shown; empty where it may be."""
    queries = len(ranking.part.queries)
    if queries < LEAST_QUERIES:
        few = "one question of the bank matches" if queries == 1 else f"{queries} questions of the bank match"
        return f"Only {few}, and a ranking needs {LEAST_QUERIES}: choose more topics, or say more."
    comparisons = queries * (len(ranking.part.authors) - 1)
    if not ranking.advice and ranking.failed > MOST_UNREAD * comparisons:
        share = f"{ranking.failed:,} of {comparisons:,} comparisons"
        return f"The judge could not read {share}, so that a ranking would rest on what is left by chance."
    return ranking.advice
