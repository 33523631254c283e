"""A judge of anybody's own words: a small model reads the criteria, and what they ask for is counted."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from crm.criteria.counting import DIGEST, MEASURES, Text
from crm.judges import refusals, sentence_reader, splitting
from crm.judges.judge import TextJudge
from crm.judges.sentence_reader import SentenceReader, bundled_reader
from crm.schema import GENERIC_CRITERION, Message

CLEAR = 2.2
"""Log-odds for a clear difference in a criterion that counts once, 90 %: by convention, as no votes were fitted."""
SUCH_AS = 'such as "short answers, no lists"'
WHY = {
    "no_criteria": f"no criteria are given; say what you prefer, {SUCH_AS}",
    "not_understood": f"nothing of the criteria is understood; say in English what you prefer, {SUCH_AS}",
    "not_counted": f"nothing that the criteria ask for can be counted; name the form or style of an answer, {SUCH_AS}",
    "at_odds": "the criteria ask for a thing and its opposite in equal parts; take one away",
    "empty": "the response is empty",
    "too_short": "the response is too short to count what the criteria ask for; give a longer one",
}
"""Why there is no number, by the word for it."""


class TraitsJudge(TextJudge):
    """Scores a response by what can be counted in it, in log-odds; it reads no prompt, and fails as in `WHY`."""

    def __init__(self, reader: SentenceReader | None = None) -> None:
        self.reader = reader or bundled_reader()
        self.digest = f"traits-{self.reader.digest}-{_rules_digest()}"
        self._weights = lru_cache(4096)(self._read)
        self._counted = lru_cache(65536)(counted)

    def score(self, criteria: Sequence[str], response: Sequence[Message]) -> float | str:
        """What a response is worth in log-odds, or a word for why there is no number."""
        weights = self._weights(tuple(criteria))
        if isinstance(weights, str):
            return weights
        text = "\n".join(turn.content for turn in response)
        if not text.strip():
            return "empty"
        total = self._counted(tuple(weights.items()), text)
        return "too_short" if math.isnan(total) else total

    def _read(self, criteria: tuple[str, ...]) -> Mapping[str, float] | str:
        if criteria == (GENERIC_CRITERION,):
            return "no_criteria"
        clauses = [clause for line in criteria for clause in self.reader.read(line) if clause.criterion]
        known = summed((str(each.criterion), each.side * each.weight) for each in clauses if each.criterion in MEASURES)
        counted = {name: by for name, by in known.items() if by}
        return counted or ("at_odds" if known else "not_counted" if clauses else "not_understood")


def _rules_digest() -> str:
    """Of what decides a score beside the reader's weights."""
    sources = (Path(str(module.__file__)).read_bytes() for module in (sentence_reader, splitting, refusals))
    return hashlib.sha256(b"".join([*sources, DIGEST.encode()])).hexdigest()[:16]


def summed(weights: Iterable[tuple[str, float]]) -> dict[str, float]:
    """By criterion what its weights come to; 0 where they are at odds."""
    found: dict[str, float] = {}
    for name, by in weights:
        found[name] = found.get(name, 0.0) + by
    return found


def counted(weights: Iterable[tuple[str, float]], text: str) -> float:
    """The score in log-odds of a text by measures and their weights; NaN where it is too short for one of them."""
    read = Text(text)
    return CLEAR * sum(by * MEASURES[name](read) / MEASURES[name].clear for name, by in weights)
