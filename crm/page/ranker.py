"""Rank a bank under one person's criteria, and say when a ranking is not valid."""

from __future__ import annotations

import math
from dataclasses import dataclass

from crm.leaderboard import Leaderboard
from crm.leaderboard.bank import Bank
from crm.leaderboard.outcomes import Outcomes
from crm.page.profile import Profile, ProfileError
from crm.page.scorers import Scorer
from crm.page.selection import Selector

MOST_UNREAD = 0.2
"""Share of comparisons without a verdict above which a ranking is not valid."""
LEAST_QUERIES = 20
"""With fewer queries, intervals of a win rate are some 40 points wide."""


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

    def read(self, profile: Profile) -> None:
        """All of its `rank` that takes a while. Raises `ProfileError` as `rank` does."""
        self.selector.select(profile)
        self.scorer.prepare(profile.signed[0])

    def rank(self, profile: Profile) -> Ranking:
        """The ranking. Raises `ProfileError` for what the bank does not have or the judge cannot read."""
        part = self.selector.select(profile)
        try:
            outcomes = self.scorer.outcomes(*profile.signed, part)
        except ValueError as error:
            raise ProfileError(str(error)) from None
        board = Leaderboard(outcomes) if outcomes.readable.any() else None
        lines = profile.lines
        lost = self.scorer.not_understood(lines)
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
