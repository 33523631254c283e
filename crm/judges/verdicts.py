"""The verdict of a language model's reply, from its text or its likely first tokens; a preference is never guessed."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Literal

from crm.chat.replies import refuses, split_thoughts

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

_LINE = re.compile(
    r"(\*\*)?(?ai:verdict):(\*\*)?[ \t]*(\*\*)?(?P<brackets>\[\[)?(?P<letter>[AB])(?(brackets)\]\])\.?(\*\*)?\.?"
)
_TIE = re.compile(r"(?i:verdict: ?(?:tie|tied|draw|equal|both|neither|none))")
_BOTH = re.compile(r"(?i:verdict): ?(?:A ?(?:\W ?|(?:and|or|and/or) )?B|B ?(?:\W ?|(?:and|or|and/or) )?A)")


def read_verdict(text: str) -> tuple[Verdict, None] | tuple[None, str]:
    """The verdict of a reply's last line that is not blank, or a word of `FAILURES`.

    The line is ``Verdict: A`` (the response shown first) or ``Verdict: B``; bold, the letter in double brackets, blanks
    and a final period are tolerated. Thoughts at the beginning (``<think>``) are no part of the reply.
    """
    thoughts, text = split_thoughts(text)
    lines = [line for line in (line.strip(" \t\r") for line in text.split("\n")) if line]
    if not lines:
        return None, "no_verdict" if thoughts else "empty"
    if not _LINE.fullmatch(lines[-1]):
        bare = " ".join(re.sub(r"[*\[\].]", "", lines[-1]).split())
        kinds = {"tie": _TIE.fullmatch(bare), "contradictory": _BOTH.fullmatch(bare), "refusal": refuses(text)}
        return None, next((kind for kind, found in kinds.items() if found), "no_verdict")
    letters = [found["letter"] for line in lines if (found := _LINE.fullmatch(line))]
    if len(set(letters)) > 1:
        return None, "contradictory"
    return ("first" if letters[-1] == "A" else "second"), None


def token_logit(likely: Sequence[tuple[str, float]]) -> float | None:
    """Log-odds of the token A (the response shown first) against B from (token, log probability) pairs.

    Tokens that differ in white space alone are added up. A letter that is not listed gets the least likely listed
    value, so that the log-odds are too small, never too large. None where neither letter is listed, or nothing bounds
    the other.
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
    """Logarithm of the sum of the exponentials, None of nothing."""
    if not values:
        return None
    top = max(values)
    return top + math.log(sum(math.exp(value - top) for value in values))
