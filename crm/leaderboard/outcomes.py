"""What a judge said of a bank, as arrays. In: matches, or scores of all responses. Out: `Outcomes`, which are ranked.

Letters: Q queries, M models, the baseline among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from crm.io.words import count_words
from crm.leaderboard.bank.bank import Bank, check_baseline
from crm.report.statistics import Floats, Indices
from crm.schema import Match

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Outcomes:
    """M models against one of them, the baseline, on Q queries, which stand sorted by their ids.

    ``models`` are the candidates, sorted, and the baseline last; its column is answered and read throughout.
    """

    queries: tuple[str, ...]
    topics: tuple[str, ...]
    """(Q,), one a query."""
    models: tuple[str, ...]
    logits: Floats
    """(Q, M) log-odds that the model's response is preferred to the baseline's, whose own are 0; NaN: not read."""
    answered: Flags
    """(Q, M): False where no answer came, or a race did not ask: the outcome is not known."""
    words: Floats
    """(Q, M) lengths of responses."""
    scores: Floats | None = None
    """(Q, M) of responses, where the judge has such: NaN where it did not answer, minus infinity where it could
    not read."""

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

    def matches(self) -> list[Match]:
        """One a candidate and query that the judge answered, query by query."""
        return [
            self._match(row, column)
            for row in range(len(self.queries))
            for column in range(len(self.models) - 1)
            if self.answered[row, column]
        ]

    def _match(self, row: int, column: int) -> Match:
        read = not np.isnan(self.logits[row, column])
        scores: Any = (None, None) if self.scores is None or not read else self.scores[row, [column, -1]].tolist()
        logit = float(self.logits[row, column]) if read else None
        lengths = int(self.words[row, column]), int(self.words[row, -1])
        return Match(self.queries[row], self.topics[row], self.models[column], self.baseline, logit, *lengths, *scores)


def of_matches(matches: Sequence[Match]) -> Outcomes:
    """The outcomes that records tell; a query's baseline score is the mean over its matches.

    Batching may move that score in its last digits. Raises ``ValueError`` for no matches, two baselines, one as its
    own candidate, or a repeated match.
    """
    baseline = _check(matches)
    models = (*sorted({match.candidate for match in matches}), baseline)
    topics = dict(sorted({match.query_id: match.topic for match in matches}.items()))
    row_of, column_of = ({name: place for place, name in enumerate(names)} for names in (topics, models))
    row = np.array([row_of[match.query_id] for match in matches])
    column = np.array([column_of[match.candidate] for match in matches])
    shape = len(topics), len(models)
    logits, words, scores = (np.full(shape, np.nan) for _ in range(3))
    answered = np.zeros(shape, dtype=np.bool_)
    answered[:, -1] = True
    answered[row, column] = [match.answered for match in matches]
    logits[row, column] = [_number(match.preference_logit) for match in matches]
    logits[:, -1] = 0.0
    words[row, column] = [match.length_candidate for match in matches]
    words[row, -1] = [match.length_baseline for match in matches]
    read = ~np.isnan(logits[row, column])
    own, theirs = (
        np.array([_number(getattr(match, name)) for match in matches])[read]
        for name in ("score_candidate", "score_baseline")
    )
    if np.isnan(own).any() or np.isnan(theirs).any():
        return Outcomes(tuple(topics), tuple(topics.values()), models, logits, answered, words)
    scores[row, column] = np.where(answered[row, column], -np.inf, np.nan)
    scores[row[read], column[read]] = own
    count = np.bincount(row[read], minlength=len(topics))
    sums = np.bincount(row[read], theirs, len(topics))
    scores[:, -1] = np.where(count > 0, sums / np.maximum(count, 1), np.nan)
    return Outcomes(tuple(topics), tuple(topics.values()), models, logits, answered, words, scores)


class BankNumbers:
    """What rankings need to know of a bank besides scores; its texts are counted once."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        self.words: Indices = np.array(
            [[count_words(bank.responses[name][query.id]) for name in bank.authors] for query in bank.queries]
        )
        self._column = {name: place for place, name in enumerate(bank.authors)}
        self._row = {query.id: place for place, query in enumerate(bank.queries)}

    def outcomes(self, scores: npt.NDArray[Any], part: Bank) -> Outcomes:
        """Of ``part``, some queries and models of the bank and a baseline, by ``scores`` (Q, M) of the whole bank.

        Scores stand in the order of `Bank.queries` and `Bank.authors`; NaN: the response is too long to be read.
        """
        check_baseline(self.bank, part.baseline)
        models = (*(name for name in part.authors if name != part.baseline), part.baseline)
        queries = sorted(part.queries, key=lambda query: query.id)
        rows, columns = [self._row[query.id] for query in queries], [self._column[name] for name in models]
        own = scores[np.ix_(rows, columns)].astype(np.float64)
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


def _check(matches: Sequence[Match]) -> str:
    """The baseline, or ``ValueError``."""
    if not matches:
        raise ValueError("matches: none given, expected one or more; score a bank first")
    baselines = sorted({match.baseline for match in matches})
    if len(baselines) > 1:
        raise ValueError(f"baseline: {', '.join(baselines)}; all matches of a leaderboard need the same one")
    seen: set[tuple[str, str]] = set()
    for match in matches:
        if match.candidate == match.baseline:
            raise ValueError(f"candidate: {match.candidate} is the baseline itself, on query {match.query_id}")
        if (match.candidate, match.query_id) in seen:
            raise ValueError(f"candidate: {match.candidate} appears twice on query {match.query_id}")
        seen.add((match.candidate, match.query_id))
    return baselines[0]


def _number(value: float | None) -> float:
    return np.nan if value is None else value
