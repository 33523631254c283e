"""Rank a bank under one person's criteria, by arithmetic on scores that every response already has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from crm.leaderboard import Leaderboard
from crm.leaderboard.bank import Bank
from crm.leaderboard.outcomes import Outcomes
from crm.page.profile import Profile, ProfileError
from crm.page.reaction import Reaction
from crm.page.selection import Selector

if TYPE_CHECKING:  # torch takes seconds to import, and the oracle does without it
    from crm.leaderboard.index import Scores
    from crm.leaderboard.indexed_bank import IndexedBank
    from crm.model.late_reading import Conversation


class Scorer(Protocol):
    """Scores of all responses of ``bank`` under any criteria, without reading a response again.

    Letters: N criteria, Q queries, M models.
    """

    example: str
    """A criterion to start from; empty where a ranking without criteria means something."""

    @property
    def bank(self) -> Bank:
        """Whose responses are scored."""
        ...

    def prepare(self, criteria: Sequence[str]) -> None:
        """Do what takes longest of all below, for several people at once."""
        ...

    def scores(self, criteria: Sequence[str]) -> Scores:
        """(N, Q, M) float32, each criterion alone; NaN: it or the response cannot be read."""
        ...

    def outcomes(self, criteria: Sequence[str], weights: Sequence[float], part: Bank) -> Outcomes:
        """Of ``part`` under the weighted sum of criteria. Raises ``ValueError`` for a criterion that is too long."""
        ...

    def of_texts(self, criteria: Sequence[str], weights: Sequence[float], texts: Sequence[Conversation]) -> list[float]:
        """A score for each of ``texts``, which the bank need not have; NaN: it cannot be read."""
        ...

    def not_understood(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Those of ``lines`` that say nothing to the judge."""
        ...

    def advice(self, lines: Sequence[str]) -> str:
        """What to say to somebody whose ``lines`` are all not understood, or who gave none."""
        ...


class IndexScorer:
    """A late head's index of a bank."""

    example = ""

    def __init__(self, indexed: IndexedBank) -> None:
        self.indexed, self.reaction = indexed, Reaction(indexed)
        self.scores, self.outcomes = indexed.scores, indexed.outcomes
        self.not_understood = self.reaction.not_understood

    @property
    def bank(self) -> Bank:
        """Whose responses are scored."""
        return self.indexed.bank

    def prepare(self, criteria: Sequence[str]) -> None:
        """Read these criteria, together with those of whoever waits, and the random letters to compare them with."""
        self.indexed.reader.criterion_vectors(criteria)
        self.reaction.prepare(criteria)

    def of_texts(self, criteria: Sequence[str], weights: Sequence[float], texts: Sequence[Conversation]) -> list[float]:
        """A score for each of ``texts``, which are read now."""
        reader = self.indexed.reader
        found: list[float] = (reader.responses(texts) @ reader.user_vector(criteria, weights)).tolist()
        return found

    def advice(self, lines: Sequence[str]) -> str:
        """As `Scorer.advice`."""
        return (
            "The judge does not react to these words: they rank the models as random letters do. Say it in other words."
        )


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
    """What to say where no line is understood; empty where one is."""

    @property
    def failed(self) -> int:
        """Comparisons without a verdict: they count as lost, unless nobody could be read on their query."""
        return int(self.outcomes.unread.sum())

    def logits(self, model: str) -> dict[str, float]:
        """By query id: log-odds that the model's response is preferred to the baseline's, where it was read."""
        column = self.outcomes.logits[:, self.outcomes.models.index(model)].tolist()
        return {
            query: value for query, value in zip(self.outcomes.queries, column, strict=True) if not math.isnan(value)
        }


class Ranker:
    """Rankings of one bank by one scorer, for any number of threads."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer, self.selector = scorer, Selector(scorer.bank)

    @property
    def bank(self) -> Bank:
        """The bank that is ranked."""
        return self.scorer.bank

    def read(self, profile: Profile) -> None:
        """All of its `rank` that takes a while. Raises `ProfileError` as `rank` does."""
        self.selector.select(profile)
        self.scorer.prepare(signed(profile)[0])

    def rank(self, profile: Profile) -> Ranking:
        """The ranking. Raises `ProfileError` for what the bank does not have or the judge cannot read."""
        part = self.selector.select(profile)
        try:
            outcomes = self.scorer.outcomes(*signed(profile), part)
        except ValueError as error:
            raise ProfileError(str(error)) from None
        board = Leaderboard(outcomes) if outcomes.readable.any() else None
        lines = (*profile.criteria, *profile.dislikes)
        lost = self.scorer.not_understood(lines)
        silent = len(lost) == len(lines) and (lines or self.scorer.example)
        advice = self.scorer.advice(lines) if silent else ""
        return Ranking(profile, part, outcomes, board, lost, advice)


def signed(profile: Profile) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Criteria and their weights, below 0 for what is disliked; the generic criterion where there are none."""
    lines = (*profile.criteria, *profile.dislikes)
    if not lines:
        return profile.told, (1.0,)
    sizes = profile.weights or (1.0,) * len(lines)
    likes = len(profile.criteria)
    return lines, (*sizes[:likes], *(-size for size in sizes[likes:]))
