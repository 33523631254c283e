"""Rank a bank by what a person typed: clauses become weights on the columns of its criteria matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
import yaml

from crm.criteria.counting import MEASURES
from crm.judges.reader import Clause, SentenceReader
from crm.judges.traits_judge import CLEAR, counted
from crm.leaderboard.bank.bank import Bank
from crm.leaderboard.matrix import CriteriaMatrix
from crm.leaderboard.outcomes import BankNumbers, Outcomes


@dataclass(frozen=True)
class Understood:
    """What became of a clause of ``line``: its ``meaning`` in the pool's words, or ``why`` it does not count.

    ``side`` is ``more`` or ``less``, ``confidence`` in [0, 1], ``weight`` above 0; ``nearest`` are the likeliest
    meanings, best first.
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

    def __str__(self) -> str:
        if self.criterion and self.why:
            return f"“{self.clause}”: {self.why}"
        if self.why:
            return f"“{self.clause}”: {self.why}; did you mean {' or '.join(self.nearest[:3])}?"
        weight = "" if self.weight == 1 else f", counts {self.weight:g} times"
        return f"“{self.clause}” is read as {self.meaning} ({self.confidence:.2f}{weight})"


class OwnWords:
    """Rankings of the bank of ``matrix`` by sentences that ``reader`` reads; counted columns are made when needed."""

    def __init__(self, reader: SentenceReader, matrix: CriteriaMatrix) -> None:
        self.matrix, self.bank = matrix, matrix.bank
        self.numbers = BankNumbers(matrix.bank)
        self._read = cache(reader.read)

    def understood(self, lines: Sequence[str], weights: Sequence[float] = ()) -> list[Understood]:
        """Every clause of every line; a line with a weight below 0 is disliked: the same criterion, the other side."""
        signed = list(weights) or [1.0] * len(lines)
        return [
            self._meaning(line, clause, by)
            for line, by in zip(lines, signed, strict=True)
            for clause in self._read(line)
        ]

    def weights(self, lines: Sequence[str], weights: Sequence[float] = ()) -> dict[str, float]:
        """By criterion what its clauses count in sum, below 0 for less of it; 0 where they are at odds."""
        summed: Counter[str] = Counter()
        for each in self.understood(lines, weights):
            if not each.why:
                summed[str(each.criterion)] += each.weight if each.side == "more" else -each.weight  # type: ignore[assignment]
        return dict(summed)

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
        return found.missing_where(np.isnan(found.logits))

    def scores(self, wanted: Mapping[str, float], progress: bool = False) -> np.ndarray:
        """(Q, M) in log-odds, NaN where a column is missing."""
        self.matrix.count([name for name in wanted if name in MEASURES], progress)
        return CLEAR * self.matrix.scores(wanted)

    def of_text(self, wanted: Mapping[str, float], text: str) -> float:
        """The score of another text in log-odds; NaN where it is too short, or where a column is not counted."""
        return counted(wanted.items(), text) if wanted.keys() <= MEASURES.keys() else float("nan")

    def why_nothing(self, lines: Sequence[str], weights: Sequence[float] = ()) -> str:
        """Why nothing of ``lines`` counts, and what to type instead."""
        found = self.understood(lines, weights)
        if not found:
            return "criteria: none given; say what you care about: 'criteria=[\"short answers, no lists\"]'"
        if not any(each.why for each in found):
            return "criteria: they ask for a thing and its opposite in equal parts; take one away"
        return f"criteria: {'; '.join(str(each) for each in found if each.why)}"

    def _meaning(self, line: str, clause: Clause, by: float) -> Understood:
        name, sign = clause.criterion, clause.side if by >= 0 else -clause.side
        nearest = tuple(pool()[each][_side(side)] for each, side, _ in clause.nearest)
        why = ""
        if name is None:
            why = "not understood"
        elif name not in MEASURES and name not in self.matrix.columns:
            why = f"nobody has scored “{pool()[name]['more']}” on this bank"
        meaning = pool()[name][_side(sign)] if name else ""
        weight = abs(by) * clause.weight
        return Understood(line, clause.text, name, _side(sign), meaning, clause.confidence, weight, why, nearest)


def _side(sign: int) -> str:
    return "more" if sign > 0 else "less"


@cache
def pool() -> Mapping[str, Mapping[str, str]]:
    """The criteria of the package by name: ``more``, ``less``, ``definition``."""
    entries = yaml.safe_load(files("crm.criteria").joinpath("pool.yaml").read_text(encoding="utf-8"))
    return {entry["name"]: entry for entry in entries}
