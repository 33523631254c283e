"""Who won which comparison of a bank, and how surely, as arrays.

Letters: Q queries, M models, the baseline among them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from crm.io.words import count_words
from crm.leaderboard.bank.bank import Bank
from crm.report.statistics import Floats, Indices

Flags = npt.NDArray[np.bool_]
LEAST_QUERIES = 20
"""With fewer queries, intervals of a win rate are some 40 points wide."""


@dataclass(frozen=True)
class Outcomes:
    """M models against one of them, the baseline, on Q queries, sorted by their ids.

    ``models`` are the candidates, sorted, and the baseline last; its column is answered and read throughout.
    """

    queries: tuple[str, ...]
    topics: tuple[str, ...]
    """(Q,), one a query."""
    models: tuple[str, ...]
    logits: Floats
    """(Q, M) log-odds that the model's response is preferred to the baseline's, whose own are 0; NaN: not read."""
    answered: Flags
    """(Q, M): False where no answer came, so that the outcome is not known."""
    words: Floats
    """(Q, M) lengths of responses."""
    scores: Floats | None = None
    """(Q, M) of responses, where the judge has such: NaN where it did not answer, minus infinity where it could
    not read."""
    unknown: str = "got no answer"
    """What became of a comparison that is not answered."""

    @property
    def baseline(self) -> str:
        """The model that all others are compared with."""
        return self.models[-1]

    @property
    def unread(self) -> Flags:
        """(Q, M): too long for the judge, or answered without a verdict."""
        return np.asarray(self.answered & np.isnan(self.logits))

    @cached_property
    def wins(self) -> Floats:
        """(Q, M) win probabilities in [0, 1]: 0.5 for the baseline, 0 where it was not read, NaN where not answered."""
        read = np.where(np.isnan(self.logits), 0.0, special.expit(self.logits))
        return np.where(self.answered, read, np.nan)

    @property
    def readable(self) -> Flags:
        """(Q,): whether the judge could read a candidate. Where it could not, query or baseline are at fault."""
        return np.asarray(~np.isnan(self.logits[:, :-1]).all(axis=1))

    def on(self, rows: Flags) -> Outcomes:
        """Of the queries that ``rows`` (Q,) says."""
        if rows.all():
            return self
        places = np.nonzero(rows)[0].tolist()
        return replace(
            self,
            queries=tuple(self.queries[place] for place in places),
            topics=tuple(self.topics[place] for place in places),
            **{name: getattr(self, name)[rows] for name in ("logits", "answered", "words")},
            scores=None if self.scores is None else self.scores[rows],
        )


class BankNumbers:
    """Outcomes of a bank by scores; the lengths of its responses are counted once."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        counts = [[count_words(bank.responses[name][query.id]) for name in bank.authors] for query in bank.queries]
        self.words: Indices = np.array(counts)
        self._column = {name: place for place, name in enumerate(bank.authors)}
        self._row = {query.id: place for place, query in enumerate(bank.queries)}

    def outcomes(self, scores: npt.NDArray[Any] | None, part: Bank) -> Outcomes:
        """Of ``part``, some queries and models of the bank and a baseline, by ``scores`` (Q, M) of the whole bank.

        Scores are in the order of `Bank.queries` and `Bank.authors`; NaN, or None for all: too long to be read.
        """
        models = (*(name for name in part.authors if name != part.baseline), part.baseline)
        queries = sorted(part.queries, key=lambda query: query.id)
        rows, columns = [self._row[query.id] for query in queries], [self._column[name] for name in models]
        all_scores = np.full(self.words.shape, np.nan) if scores is None else scores
        own = all_scores[np.ix_(rows, columns)].astype(np.float64)
        logits = own - own[:, -1:]
        logits[:, -1] = 0.0
        return Outcomes(
            tuple(query.id for query in queries),
            tuple(query.topic for query in queries),
            models,
            logits,
            np.ones(own.shape, dtype=np.bool_),
            self.words[np.ix_(rows, columns)].astype(np.float64),
            np.where(np.isnan(own), -np.inf, own),
        )
