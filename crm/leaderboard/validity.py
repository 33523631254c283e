"""Responses that are no answer whatever a person prefers: empty, cut off, repeating themselves or the criteria."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache

import pandas as pd

from crm.leaderboard.bank.bank import Bank

EMPTY, TRUNCATED, REPEATING, STUFFED = "empty", "truncated", "repeating", "stuffed"
LONG = 60
"""Words from which a text may count as cut off."""
LOOP, LINE, TIMES = 40, 25, 4
"""Characters of a piece that loops, and of a line that is compared with others; how often they have to come."""
_LISTED = re.compile(r"\s*(?:[-*•#|>]|\w{1,3}[.)]\s)")


class BankFlaws:
    """The `flaws` of a bank's responses, checked once, and `STUFFED` for one that quotes a criterion of five words."""

    def __init__(self, bank: Bank) -> None:
        texts = {(query.id, name): own[query.id] for name, own in bank.responses.items() for query in bank.queries}
        self._rules = {place: found for place, text in texts.items() if (found := flaws(text))}
        folded = cache(lambda: {place: text.casefold() for place, text in texts.items()})
        self._quoting = lru_cache(256)(  # 20 ms a line for 30 models on 804 queries
            lambda line: [place for place, text in folded().items() if line in text]
        )

    def under(self, criteria: Sequence[str]) -> dict[tuple[str, str], tuple[str, ...]]:
        """Of the flawed responses alone, by the id of a query and a model."""
        found = dict(self._rules)
        quotable = (each.casefold().rstrip(". ") for each in criteria if each.count(" ") >= 4)
        for place in {place for line in quotable for place in self._quoting(line)}:
            found[place] = (*found.get(place, ()), STUFFED)
        return found


def flawed_responses(bank: Bank, criteria: Sequence[str] = ()) -> pd.DataFrame:
    """Whether a response has any of the `flaws`: a row a query, by its id, and a column a model."""
    ids, found = [query.id for query in bank.queries], BankFlaws(bank).under(criteria)
    return pd.DataFrame({name: [(each, name) in found for each in ids] for name in bank.responses}, index=ids)


def flaws(text: str) -> tuple[str, ...]:
    """Which of `EMPTY`, `TRUNCATED`, `REPEATING` a response is; none for most.

    Truncated: a block of code has no end, or a text of 60 words or more ends within a sentence. Repeating: 40
    characters at its end or in its middle come four times, or half of its lines are there before.
    """
    if not text.strip():
        return (EMPTY,)
    return (*[TRUNCATED] * _breaks_off(text), *[REPEATING] * _repeats(text))


def _breaks_off(text: str) -> bool:
    if text.count("```") % 2:
        return True
    end = text.rstrip()
    if not (end[-1].isalnum() or end[-1] == ","):
        return False
    last = end.rpartition("\n")[2]
    words = last.split()
    sentence = len(words) >= 8 and not _LISTED.match(last) and not words[-1].startswith(("#", "@", "http"))
    return sentence and len(text.split()) >= LONG


def _repeats(text: str) -> bool:
    whole = text.strip()
    for piece in (whole[len(whole) // 2 :][:LOOP], whole[-LOOP:]):
        if whole.count(piece) >= TIMES and len(piece) == LOOP and len(set(piece)) > TIMES:
            return True
    lines = [line for line in text.split("\n") if len(line) >= LINE]
    if len(lines) < TIMES or len(set(lines)) == len(lines):
        return False
    lines = [line for line in lines if any(map(str.isalpha, line))]
    return len(lines) >= TIMES and 2 * len(set(lines)) <= len(lines)
