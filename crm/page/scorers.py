"""Scorers of a bank that are arithmetic: its criteria matrix, or an index of a late head.

``sees`` says what of a response counts, ``win_rate`` what the percent is; ``examples`` are lines to start from.
Letters: N criteria, Q queries, M models, T texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from crm.criteria.counting import MEASURES, Text
from crm.judges.traits_judge import CLEAR
from crm.leaderboard.bank.bank import Bank
from crm.leaderboard.matrix import COUNTED
from crm.leaderboard.outcomes import Outcomes

if TYPE_CHECKING:  # torch takes seconds to import, and counting does without it
    from crm.leaderboard.index import IndexedBank, Scores
    from crm.leaderboard.own_words import CriteriaReader, OwnWords, Understood
    from crm.model.late_reading import Conversation


class WordsScorer:
    """What is read in somebody's own words, on the columns of the bank's criteria matrix."""

    sees = "Your ranking counts form and style in the answers (length, lists, hedges, figures …), not truth or skill."
    win_rate = "50 % has as much of what you ask for, 90 % clearly more: a scale that is not measured on people’s votes"
    examples = (
        "short answers, no bullet points",
        "step by step, with examples",
        "simple words, short sentences",
        "numbers and sources",
        "polite, no emoji",
    )

    def __init__(self, words: OwnWords) -> None:
        self.words, self.bank = words, words.bank
        self._scored = words.scored

    def scores(self, criteria: Sequence[str]) -> Scores:
        """(N, Q, M) float32, each line alone; 0 for one of which nothing counts."""
        shape = (len(self.bank.queries), len(self.bank.authors))
        found = [self.words.weights([line]) for line in criteria]
        return np.stack([self.words.scores(wanted) if wanted else np.zeros(shape, np.float32) for wanted in found])

    def outcomes(self, criteria: Sequence[str], weights: Sequence[float], part: Bank) -> Outcomes:
        """Of ``part`` by all that is understood; unread throughout where nothing is."""
        if not any(self.words.weights(criteria, weights).values()):
            return self.words.numbers.outcomes(None, part)
        return self.words.outcomes(criteria, weights, part)

    def score_texts(self, criteria: Sequence[str], texts: Sequence[Conversation]) -> Scores:
        """(N, T) of other texts by what is counted, each line alone; NaN for a text that is too short to say."""
        wanted = [self.words.weights([line]) for line in criteria]
        counted = (name for name in MEASURES if self.words.matrix.scorer(name) == COUNTED)
        names = [name for name in counted if any(name in each for each in wanted)]
        read = (Text("\n".join(turn.content for turn in response)) for _, response in texts)
        cells = np.array([[MEASURES[name](text) / MEASURES[name].clear for name in names] for text in read])
        weights = np.array([[each.get(name, 0.0) for name in names] for each in wanted])
        return np.asarray(CLEAR * weights @ cells.T, np.float32)

    def understood(self, lines: Sequence[str], weights: Sequence[float] = ()) -> list[Understood]:
        """What every line is read as; ``nearest`` are other meanings that this bank is scored on."""
        found = self.words.understood(lines, weights)
        return [replace(each, nearest=tuple(filter(self._scored.__contains__, each.nearest))) for each in found]

    def not_understood(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Lines of which nothing counts."""
        return tuple(line for line in lines if not self.words.weights([line]))


class IndexScorer:
    """A late head's index of a bank.

    A head gives any words a number. So a line counts only where ``reading`` understands all of it, or has it word for
    word among its own criteria.
    """

    sees = "A trained checkpoint scores the answers; it follows sentences like those of its training best."
    win_rate = (
        "the checkpoint’s mean chance that you prefer the model’s answer, which nobody has measured on your own votes"
    )
    examples = (  # sentences of the simulation, which its judges were taught
        "Prefers concise answers",
        "Wants concrete examples",
        "Prefers bulleted lists",
        "Prefers flowing prose",
        "Prefers evidence and data",
    )

    def __init__(self, indexed: IndexedBank, reading: CriteriaReader) -> None:
        self.indexed, self.bank, self.reading = indexed, indexed.bank, reading

    def scores(self, criteria: Sequence[str]) -> Scores:
        """(N, Q, M) float32, each line alone; 0 for one that does not count, NaN for a response that was not read."""
        found, lost = self.indexed.scores(criteria), self.not_understood(criteria)
        found[[line in lost for line in criteria]] *= 0.0
        return found

    def outcomes(self, criteria: Sequence[str], weights: Sequence[float], part: Bank) -> Outcomes:
        """Of ``part`` by all that is understood; unread throughout where nothing is."""
        lost = self.not_understood(criteria)
        known = [(line, by) for line, by in zip(criteria, weights, strict=True) if line not in lost]
        if not known:
            return self.indexed.numbers.outcomes(None, part)
        lines, signed = zip(*known, strict=True)
        return self.indexed.outcomes(lines, signed, part)

    def score_texts(self, criteria: Sequence[str], texts: Sequence[Conversation]) -> Scores:
        """(N, T) of other texts, which are read now."""
        return (self.indexed.vectors(criteria) @ self.indexed.reader.responses(texts).T).numpy()

    def understood(self, lines: Sequence[str], weights: Sequence[float] = ()) -> list[Understood]:
        """The clauses of lines that are not understood: what the others mean is the checkpoint's to say."""
        return self.reading.understood(self.not_understood(lines))

    def not_understood(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Lines of which a clause is not understood."""
        lost = {each.line for each in self.reading.understood(lines) if each.why}
        return tuple(line for line in lines if line in lost)


Scorer = WordsScorer | IndexScorer
