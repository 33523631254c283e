"""Rank a bank by what a person typed: clauses become weights on the columns of its criteria matrix."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np

from crm.criteria.pool import Criterion, read_criteria
from crm.judges.sentence_reader import KNOWN, Clause, SentenceReader, plain
from crm.judges.traits_judge import CLEAR, summed
from crm.leaderboard.bank.bank import Bank
from crm.leaderboard.matrix import COUNTED, Column, CriteriaMatrix
from crm.leaderboard.outcomes import BankNumbers, Outcomes

NOT_IN_ANSWERS = {
    "prices are beside the models on the page, not in their answers": (
        r"(?:in|not )?expensive|cheap(?:er|est)?|affordable|free(?: to use)?|(?:low )?(?:costs?|prices?|budget)|\$ ?\d+"
    ),
    "licences are below the models' names on the page, not in their answers": (
        r"open[- ](?:source|weights?)|licen[cs]ed?|commercial(?: use)?|self[- ]host(?:ed|ing)?|on[- ]premises?|runs? on"
    ),
    "not measured here: a ranking sees how answers are written, not what else a model can": (
        r"fast(?:er|est)?|speed|latency|context|(?:tool|function)s?[- ](?:calling|calls|use)|vision|multilingual|"
        r"languages?|german|french|spanish|italian|turkish|chinese|japanese|arabic|secur(?:e|ity)|"
        r"(?:privacy|gdpr)(?: compliant)?|hosted|coding|programming|maths?|contracts?|legal"
    ),
}
"""What buyers of a model ask for, in small letters, by where it is."""
LOST = "not understood"
LIKELY = 0.05
"""Probability from which on a meaning is proposed; of lines in other languages and of no sense, none has it."""
SHORT = 6
"""Words of a clause in which one of `NOT_IN_ANSWERS` is what it asks for."""
Scorer = Callable[[str, str], tuple[str, str, str]]
AT_ODDS = "ask for a thing and its opposite in equal parts"


@dataclass(frozen=True)
class Understood:
    """What became of a clause of ``line``: its ``meaning`` in the pool's words, or ``why`` it does not count.

    ``side`` is ``more`` or ``less``, ``confidence`` in [0, 1], ``weight`` above 0; ``nearest`` are the likeliest
    other meanings, of a disliked line too those of its text; ``scored_by`` says whose scores count, and ``how`` what a
    command line can do where nobody's do.
    """

    line: str
    clause: str
    criterion: str | None
    side: str
    meaning: str
    confidence: float
    weight: float
    why: str
    nearest: tuple[str, ...]
    scored_by: str = ""
    how: str = ""

    @property
    def counted(self) -> str:
        """With which weight it counts: "0.5 x ideally short (shorter answers)", "0 x candle (not understood)"."""
        by = "" if self.scored_by in ("", COUNTED) else f", by {self.scored_by}"
        return f"{0 if self.why else self.weight:g} x {self.clause} ({self.why or self.meaning}{by})"

    def __str__(self) -> str:
        if self.why:
            near = f"did you mean {' or '.join(self.nearest[:3])}?" if self.nearest else "put it in plain English"
            return f"“{self.clause}”: {self.why}{f'; {near}' if self.why == LOST else self.how}"
        weight = "" if self.weight == 1 else f", counts {self.weight:g} times"
        return f"“{self.clause}” is read as {self.meaning} ({self.confidence:.2f}{weight}), by {self.scored_by}"


class CriteriaReader:
    """What lines ask for, on the criteria of the package and ``own`` ones, whose words are known word for word.

    ``scorer`` says by name and words who has scored a criterion: see `CriteriaMatrix.source`.
    """

    def __init__(
        self, reader: SentenceReader, scorer: Scorer, own: Mapping[str, Criterion | Column] | None = None
    ) -> None:
        self._read, self._scorer = lru_cache(4096)(reader.read), scorer
        self.pool: dict[str, Criterion | Column] = {**pool(), **(own or {})}
        self._own = {plain(self.side(name, sign)): (name, sign) for name in self.pool for sign in (1, -1)}

    def understood(self, lines: Sequence[str], weights: Sequence[float] = ()) -> list[Understood]:
        """Every clause of every line; a line with a weight below 0 is disliked: the same criterion, the other side."""
        signed = list(weights) or [1.0] * len(lines)
        return [
            self._meaning(line, clause, by)
            for line, by in zip(lines, signed, strict=True)
            for clause in self._clauses(line)
        ]

    def side(self, name: str, sign: int) -> str:
        """The words for more of a criterion, or for less."""
        return self.pool[name].more if sign > 0 else self.pool[name].less

    def _clauses(self, line: str) -> Sequence[Clause]:
        """A criterion of the pool is known word for word; what it is not is what the reader makes of it."""
        whole = self._known(line)
        return [whole] if whole else [self._known(clause.text) or clause for clause in self._read(line)]

    def _known(self, text: str) -> Clause | None:
        found = self._own.get(plain(text))
        return Clause(text, *found, KNOWN, 1.0, ((*found, KNOWN),)) if found else None

    def _meaning(self, line: str, clause: Clause, by: float) -> Understood:
        elsewhere = "" if plain(clause.text) in self._own else _not_in_answers(clause)
        name, sign = None if elsewhere else clause.criterion, clause.side if by >= 0 else -clause.side
        read = clause.criterion, clause.side
        likely = [each for each in clause.nearest if (each[:2] != read if name else each[2] >= LIKELY)]
        nearest = () if elsewhere else tuple(self.side(each, side) for each, side, _ in likely)
        meaning = self.side(name, sign) if name else ""
        scored_by, why, how = self._scorer(name, meaning) if name else ("", elsewhere or LOST, "")
        side, weight, sure = "more" if sign > 0 else "less", abs(by) * clause.weight, clause.confidence
        return Understood(line, clause.text, name, side, meaning, sure, weight, why, nearest, scored_by, how)


def _not_in_answers(clause: Clause) -> str:
    """Where to find what a buyer asks for; empty for other clauses. One understood, or long, has to match whole."""
    matches = re.fullmatch if clause.criterion or len(clause.text.split()) > SHORT else re.search
    found = (why for why, words in NOT_IN_ANSWERS.items() if matches(rf"(?<!\w)(?:{words})(?!\w)", plain(clause.text)))
    return next(found, "")


def weights_of(read: Sequence[Understood]) -> dict[str, float]:
    """By criterion what its clauses count in sum, below 0 for less of it; 0 where they are at odds."""
    found = (each for each in read if not each.why)
    return summed((str(each.criterion), each.weight if each.side == "more" else -each.weight) for each in found)


class OwnWords:
    """Rankings of the bank of ``matrix`` by sentences that ``reader`` reads; counted columns are made when needed."""

    def __init__(self, reader: SentenceReader, matrix: CriteriaMatrix) -> None:
        self.matrix, self.bank = matrix, matrix.bank
        self.numbers = BankNumbers(matrix.bank)
        own = {name: each for name, each in matrix.columns.items() if each.more}
        self._reading = CriteriaReader(reader, matrix.source, own)
        self.understood = self._reading.understood

    def weights(self, lines: Sequence[str], weights: Sequence[float] = ()) -> dict[str, float]:
        """By criterion what its clauses count in sum, below 0 for less of it; 0 where they are at odds."""
        return weights_of(self.understood(lines, weights))

    def outcomes(
        self, lines: Sequence[str], weights: Sequence[float] = (), part: Bank | None = None, progress: bool = False
    ) -> Outcomes:
        """Outcomes of ``part`` of the bank, or of all of it. A response without a score is not answered, never lost.

        Raises ``ValueError`` where nothing counts.
        """
        wanted = {name: by for name, by in self.weights(lines, weights).items() if by}
        if not wanted:
            raise ValueError(self.why_nothing(lines, weights))
        found = self.numbers.outcomes(self.scores(wanted, progress), part or self.bank)
        missing, counted = np.isnan(found.logits), {self.matrix.scorer(name) for name in wanted} == {COUNTED}
        if missing.any(axis=1).all():
            lacking = {self.matrix.columns[name].label: np.isnan(self.matrix.raw(name)).mean() for name in wanted}
            shares = ", ".join(f"{label} lacks {share:.1%}" for label, share in lacking.items())
            way_out = "too short to count; ask for something else" if counted else "add some with bank.py score"
            raise ValueError(f"criteria: no query has a score of every LLM ({shares}); {way_out}")
        unknown = "had a response too short to count" if counted else "had no score"
        return replace(found, answered=found.answered & ~missing, unknown=unknown)

    def scores(self, wanted: Mapping[str, float], progress: bool = False) -> np.ndarray:
        """(Q, M) in log-odds, NaN where a column is missing."""
        self.matrix.count([name for name in wanted if self.matrix.scorer(name) == COUNTED], progress)
        return CLEAR * self.matrix.scores(wanted)

    def why_nothing(self, lines: Sequence[str], weights: Sequence[float] = ()) -> str:
        """Why nothing of ``lines`` counts, and what to type instead."""
        found = self.understood(lines, weights)
        if not found:
            return "criteria: none given; say what you care about: 'criteria=[\"short answers, no lists\"]'"
        if not any(each.why for each in found):
            return f"criteria: they {AT_ODDS}; take one away"
        return f"criteria: {'; '.join(str(each) for each in found if each.why)}"

    @property
    def scored(self) -> set[str]:
        """Meanings, in words, that this bank has scores for."""
        scored = filter(self.matrix.scorer, self._reading.pool)
        return {self._reading.side(name, sign) for name in scored for sign in (1, -1)}


@cache
def pool() -> Mapping[str, Criterion]:
    """The criteria of the package by name."""
    return {each.name: each for each in read_criteria()}
