"""Find lines of a person that an indexed judge does not react to.

A line is compared with random letters of as many words: where the scores that it gives are no further from the mean of
theirs than one in ten of them is, its ranking cannot be told from theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from crm.io.words import count_words
from crm.report.statistics import Floats

if TYPE_CHECKING:
    from crm.leaderboard.indexed_bank import IndexedBank

NONSENSE = 24
"""Lines of random letters that each line is compared with."""
SHARE = 0.9
"""Of them that a line has to be further away than."""
LETTERS = tuple("abcdefghijklmnopqrstuvwxyz")
MOST_WORDS = 12
SEED = 1


class Reaction:
    """Of the judge of ``indexed``; what random letters do is found once for each number of words."""

    def __init__(self, indexed: IndexedBank) -> None:
        self.indexed = indexed
        self._of_nonsense = cache(self._read_nonsense)

    def prepare(self, lines: Sequence[str]) -> None:
        """Read the random letters that such lines are compared with, where that was not done yet."""
        for words in {_words(line) for line in lines}:
            self._of_nonsense(words)

    def not_understood(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Those of ``lines`` that the judge does not react to."""
        return tuple(line for line in lines if not self._understood(line))

    def _understood(self, line: str) -> bool:
        if not np.isfinite(
            self.indexed.reader.criterion_vectors([line]).numpy()
        ).all():  # too long to be read, which is an error elsewhere
            return True
        middle, far = self._of_nonsense(_words(line))
        return size(self._scores([line])[0] - middle) > far

    def _read_nonsense(self, words: int) -> tuple[Floats, float]:
        """Mean scores (Q, M) of random letters, and how far from the mean of the others `SHARE` of them are at most."""
        scores = self._scores(nonsense(words))
        middle = scores.mean(axis=0)
        away = (scores - middle) * NONSENSE / (NONSENSE - 1)
        return middle, float(np.quantile([size(row) for row in away], SHARE))

    def _scores(self, lines: Sequence[str]) -> Floats:
        """(N, Q, M), each query's mean over models taken off: it moves no ranking."""
        scores = self.indexed.scores(lines).astype(np.float64)
        return np.asarray(scores - np.nanmean(scores, axis=2, keepdims=True))


def _words(line: str) -> int:
    return min(count_words(line), MOST_WORDS)


def nonsense(words: int) -> list[str]:
    """`NONSENSE` lines of so many words of 3 to 8 random letters."""
    rng = np.random.default_rng([SEED, words])
    return [" ".join("".join(rng.choice(LETTERS, rng.integers(3, 9))) for _ in range(words)) for _ in range(NONSENSE)]


def size(scores: Floats) -> float:
    """Root mean square of scores that could be read."""
    return float(np.sqrt(np.nanmean(scores**2)))
