"""Scorers of a bank that are arithmetic: its criteria matrix, an index of a late head, or the simulation's own truth.

``example`` is a criterion to start from; empty where a ranking without criteria means something. Letters: N criteria,
Q queries, M models.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from crm.data.simulation.arena import RATIONALITY
from crm.data.simulation.lexicon import HELD_OUT_AXES, TRAIN_AXES, levels_of, nearest_wording, pole_of
from crm.io.words import count_words
from crm.leaderboard.bank.bank import Bank
from crm.leaderboard.outcomes import BankNumbers, Outcomes
from crm.report.statistics import Floats
from crm.schema import short

if TYPE_CHECKING:  # torch takes seconds to import, and the oracle does without it
    from crm.leaderboard.index import IndexedBank, Scores
    from crm.leaderboard.own_words import OwnWords, Understood
    from crm.model.late_reading import Conversation

NONSENSE = 24
"""Lines of random letters that a line is compared with."""
SHARE = 0.9
"""Of them that a line has to be further away than."""
MOST_WORDS = 12
AXES = (*TRAIN_AXES, *HELD_OUT_AXES)
UNKNOWN = np.full(len(AXES), np.nan, dtype=np.float32)


Presets = Sequence[tuple[str, Sequence[str]]]
"""Names of people and what they like, for the page to start from; none where the page's own do."""


class WordsScorer:
    """What is read in somebody's own words, on the columns of the bank's criteria matrix."""

    example = "short answers, no bullet points"
    presets: Presets = (
        ("In a hurry", ("Short answers", "Replies without preamble")),
        ("Student", ("Detailed answers", "Concrete examples", "Simple words")),
        ("Analyst", ("Numbers and figures", "Bullet points")),
        ("Writer", ("Flowing prose instead of lists", "No headings, no bold type")),
        ("Careful", ("Cautious statements", "Names its sources")),
    )

    def __init__(self, words: OwnWords) -> None:
        self.words, self.bank = words, words.bank

    def scores(self, criteria: Sequence[str]) -> Scores:
        """(N, Q, M) float32, each line alone; 0 for one of which nothing counts."""
        shape = (len(self.bank.queries), len(self.bank.authors))
        found = [self.words.weights([line]) for line in criteria]
        return np.stack([self.words.scores(wanted) if wanted else np.zeros(shape, np.float32) for wanted in found])

    def outcomes(self, criteria: Sequence[str], weights: Sequence[float], part: Bank) -> Outcomes:
        """Of ``part`` by all that is understood; unread throughout where nothing is."""
        if not any(self.words.weights(criteria, weights).values()):
            nothing = np.full((len(self.bank.queries), len(self.bank.authors)), np.nan)
            return self.words.numbers.outcomes(nothing, part)
        return self.words.outcomes(criteria, weights, part)

    def of_texts(self, criteria: Sequence[str], weights: Sequence[float], texts: Sequence[Conversation]) -> list[float]:
        """A score for each of ``texts``, in log-odds; NaN for one that is too short, or scored by a reader alone."""
        wanted = self.words.weights(criteria, weights)
        return [self.words.of_text(wanted, "\n".join(turn.content for turn in response)) for _, response in texts]

    def understood(self, lines: Sequence[str], weights: Sequence[float]) -> list[Understood]:
        """What every line is read as."""
        return self.words.understood(lines, weights)

    def not_understood(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Lines of which nothing counts."""
        return tuple(line for line in lines if not self.words.weights([line]))

    def advice(self, lines: Sequence[str]) -> str:
        """Why nothing of ``lines`` counts."""
        if not lines:
            return f"Say what you care about in an answer, such as “{self.example}”."
        found = [each for each in self.words.understood(lines) if each.why]
        near = " or ".join(f"“{meaning}”" for meaning in found[0].nearest[:3])
        return f"{short(found[0].clause)}: {found[0].why}. Did you mean {near}?"


class IndexScorer:
    """A late head's index of a bank.

    A line is not understood where it moves scores no further from those of random letters, in as many words, than
    `SHARE` of such lines are from each other.
    """

    example = ""
    presets: Presets = ()

    def __init__(self, indexed: IndexedBank) -> None:
        self.indexed, self.bank = indexed, indexed.bank
        self.scores, self.outcomes = indexed.scores, indexed.outcomes
        self._of_nonsense = cache(self._read_nonsense)

    def of_texts(self, criteria: Sequence[str], weights: Sequence[float], texts: Sequence[Conversation]) -> list[float]:
        """A score for each of ``texts``, which are read now."""
        found: list[float] = (self.indexed.reader.responses(texts) @ self.indexed.user(criteria, weights)).tolist()
        return found

    def not_understood(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Those of ``lines`` that the judge does not react to; one that is too long is an error elsewhere."""
        lost = []
        for line, scores in zip(lines, self._centred(lines) if lines else (), strict=True):
            middle, far = self._of_nonsense(min(count_words(line), MOST_WORDS))
            if not np.isnan(scores).all() and size(scores - middle) <= far:
                lost.append(line)
        return tuple(lost)

    def advice(self, lines: Sequence[str]) -> str:
        """What to do where none of ``lines`` is understood."""
        return (
            "The judge does not react to these words: they rank the models as random letters do. Say it in other words."
        )

    def _read_nonsense(self, words: int) -> tuple[Floats, float]:
        """Mean scores (Q, M) of random letters, and how far from the mean of the others `SHARE` of them are at most."""
        scores = self._centred(nonsense(words))
        middle = scores.mean(axis=0)
        away = (scores - middle) * NONSENSE / (NONSENSE - 1)
        return middle, float(np.quantile([size(row) for row in away], SHARE))

    def _centred(self, lines: Sequence[str]) -> Floats:
        """(N, Q, M) scores less each query's mean over models, which moves no ranking."""
        scores = self.scores(lines).astype(np.float64)
        known = np.isfinite(scores)
        means = np.where(known, scores, 0).sum(axis=2, keepdims=True) / np.maximum(known.sum(axis=2, keepdims=True), 1)
        return np.asarray(scores - means)


def nonsense(words: int) -> list[str]:
    """`NONSENSE` lines of so many words of 3 to 8 random letters."""
    rng = np.random.default_rng([1, words])
    letters = tuple("abcdefghijklmnopqrstuvwxyz")
    return [" ".join("".join(rng.choice(letters, rng.integers(3, 9))) for _ in range(words)) for _ in range(NONSENSE)]


def size(scores: Floats) -> float:
    """Root mean square of scores that could be read."""
    return float(np.sqrt(np.nanmean(scores**2)))


class OracleScorer:
    """The true utility of every response, in nats, under the wordings of the simulation.

    Over all tastes of the simulation, which come in pairs of opposites, every model wins half: there is no ranking
    without criteria. Raises ``ValueError`` for a bank with texts that the simulation did not write.
    """

    example = "Prefers concise answers"
    presets: Presets = ()

    def __init__(self, bank: Bank) -> None:
        self.bank, self._numbers = bank, BankNumbers(bank)
        texts = [[bank.responses[author][query.id] for author in bank.authors] for query in bank.queries]
        self._levels = np.array([[_levels(text) for text in row] for row in texts])
        if np.isnan(self._levels).any():
            raise ValueError(
                f"judge=oracle: bank {bank.name!r} has responses that the simulation did not write; use "
                "bank=simulated, or give a late head with checkpoint=<run>/model"
            )

    def scores(self, criteria: Sequence[str]) -> Scores:
        """(N, Q, M) float32, each criterion alone; NaN for one that is not understood."""
        tastes = np.stack([_taste(line) for line in criteria])
        return np.ascontiguousarray(np.moveaxis(self._levels @ tastes.T, -1, 0))

    def outcomes(self, criteria: Sequence[str], weights: Sequence[float], part: Bank) -> Outcomes:
        """Of ``part`` under the weighted sum of what is understood; unread throughout where nothing is."""
        return self._numbers.outcomes(self._levels @ _sum(criteria, weights), part)

    def of_texts(self, criteria: Sequence[str], weights: Sequence[float], texts: Sequence[Conversation]) -> list[float]:
        """A score for each of ``texts``; NaN for what the simulation did not write."""
        levels = np.stack([_levels("\n".join(turn.content for turn in response)) for _, response in texts])
        found: list[float] = (levels @ _sum(criteria, weights)).tolist()
        return found

    def not_understood(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Lines that are no wording of the simulation, with or without a leading "Prefers"."""
        return tuple(line for line in lines if np.isnan(_taste(line)).any())

    def advice(self, lines: Sequence[str]) -> str:
        """A sentence to try: the known one that is most like the first of ``lines``."""
        if not lines:
            return f"Add something that you like, such as “{self.example}”: over all tastes, no model is ahead."
        near = nearest_wording(lines[0])
        return f"{short(lines[0])} is not understood: this judge knows the simulation's sentences only. Try “{near}”."


def _levels(text: str) -> Scores:
    """(D,) levels of a response, from -1 to 1; NaN for a text that the simulation did not write."""
    levels = levels_of(text)
    return UNKNOWN if levels is None else np.array([dict(levels)[axis] for axis in AXES], dtype=np.float32)


def _taste(line: str) -> Scores:
    """(D,) nats for each level; NaN for a line that is not understood."""
    pole = pole_of(line) or pole_of(f"Prefers {line}")
    if pole is None:
        return UNKNOWN
    return np.array([RATIONALITY * pole[1] * (axis == pole[0]) for axis in AXES], dtype=np.float32)


def _sum(criteria: Sequence[str], weights: Sequence[float]) -> Scores:
    """(D,) of all that is understood; NaN where nothing is."""
    tastes = [weight * _taste(line) for line, weight in zip(criteria, weights, strict=True)]
    known = [taste for taste in tastes if not np.isnan(taste).any()]
    return np.sum(known, axis=0, dtype=np.float32) if known else UNKNOWN


Scorer = WordsScorer | IndexScorer | OracleScorer
