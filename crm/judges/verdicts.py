"""What a language model's reply decides. In: its text, or its likely first tokens. Out: a verdict, or why none.

A reply that does not say exactly what was asked for is a failure: a preference is never guessed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Literal

from crm.io.chat.replies import refuses, split_thoughts

Verdict = Literal["first", "second"]
FAILURES = {
    "empty": "the reply has no text",
    "refusal": "the model, or a filter before it, declined to judge",
    "truncated": "the reply was cut before it ended",
    "tie": "the last line is a verdict line that names no winner",
    "contradictory": "the last line names both, or an earlier verdict line says otherwise",
    "no_verdict": "the last line is no verdict line, or neither letter is among the likely first tokens",
}
"""Every way in which a reply that came is of no use, and what it means."""

_WORD = r"(?ai:verdict):"
_LETTER = r"(?P<brackets>\[\[)?(?P<letter>[AB])(?(brackets)\]\])"
# All that is tolerated around "Verdict: A": these places of **, blanks and tabs, [[A]], one period, the word's case.
_FORMS = [
    re.compile(form)
    for form in (
        rf"{_WORD}[ \t]*{_LETTER}\.?",
        rf"\*\*{_WORD}[ \t]*{_LETTER}(?:\.?\*\*|\*\*\.)",
        rf"\*\*{_WORD}\*\*[ \t]*{_LETTER}\.?",
        rf"{_WORD}[ \t]*\*\*{_LETTER}(?:\.?\*\*|\*\*\.)",
    )
]
_TIE = re.compile(r"(?i:verdict: ?(?:tie|tied|draw|equal|both|neither|none))")
_BOTH = re.compile(r"(?i:verdict): ?(?:A ?(?:\W ?|(?:and|or|and/or) )?B|B ?(?:\W ?|(?:and|or|and/or) )?A)")
LONGEST = 100
"""Characters of a last line that may still name a tie or both letters."""


def read_verdict(text: str) -> tuple[Verdict, None] | tuple[None, str]:
    """The verdict of a reply's last line that is not blank, or a word of `FAILURES`.

    The line has to be ``Verdict: A`` (the response shown first) or ``Verdict: B``. Around it are tolerated: blanks and
    tabs, bold (of the whole line, of the word or of the letter), the letter in double brackets, one final period, and
    the word in any case. Lines end in a line feed, with or without a carriage return, and in nothing else. Thoughts
    at the beginning (``<think>``) are no part of the reply, whatever verdict they draft.
    """
    thoughts, text = split_thoughts(text)
    lines = [line for line in (line.strip(" \t\r") for line in text.split("\n")) if line]
    if not lines:
        return None, "no_verdict" if thoughts else "empty"
    # The word first: four expressions on each of a million lines would take a second.
    letters = [letter for letter in map(_letter, (line for line in lines if "verdict" in line.lower())) if letter]
    if _letter(lines[-1]) is None:
        return None, _why_not(text, lines[-1])
    if len(set(letters)) > 1:
        return None, "contradictory"
    return ("first" if letters[-1] == "A" else "second"), None


def _letter(line: str) -> str | None:
    for form in _FORMS:
        found = form.fullmatch(line)
        if found:
            return found["letter"]
    return None


def _why_not(text: str, last: str) -> str:
    """The kind of a reply whose ``last`` line is no verdict."""
    if len(last) <= LONGEST:
        bare = " ".join(re.sub(r"[*\[\].]", "", last).split())
        if _TIE.fullmatch(bare):
            return "tie"
        if _BOTH.fullmatch(bare):
            return "contradictory"
    return "refusal" if refuses(text) else "no_verdict"


def token_logit(likely: Sequence[tuple[str, float]]) -> float | None:
    """Log-odds of the token A (the response shown first) against B from (token, log probability) pairs.

    Tokens that differ in white space alone are added up. A letter that is not among them is no likelier than the
    least likely one that is, and takes its place: the log-odds are then too small, never too large. ``None`` where
    neither letter is there, or one is that is itself the least likely, so that nothing is known of the other.
    """
    first, second = (_log_sum([value for token, value in likely if token.strip() == letter]) for letter in "AB")
    if first is None and second is None:
        return None
    if first is not None and second is not None:
        return first - second
    bound = min(value for _, value in likely)
    logit = (bound if first is None else first) - (bound if second is None else second)
    return logit or None


def _log_sum(values: Sequence[float]) -> float | None:
    """Logarithm of the sum of the exponentials, ``None`` of nothing."""
    if not values:
        return None
    top = max(values)
    return top + math.log(sum(math.exp(value - top) for value in values))
