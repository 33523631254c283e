"""Where a sentence may be taken apart, and what its parts say about one another. English only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from crm.judges.refusals import is_own

Span = tuple[int, int]

_STRONG = re.compile(
    r"\b(?:above all(?: else)?|most of all|most important(?:ly)?|first and foremost|especially|really important|"
    r"absolutely must|crucial(?:ly)?|(?:is|are) essential|top priority|more than anything|matters? (?:the )?most)\b",
    re.IGNORECASE,
)
_WEAK = re.compile(
    r"\b(?:a (?:little )?bit|a little|slightly|somewhat|ideally|if possible|would be nice|wouldn['’]t hurt|"
    r"is welcome|now and then|not that important|a touch|preferably|at most a)\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"[\"“][^\"“”]*[\"”]|(?<!\w)['‘][^'‘’]+['’](?!\w)")
_HARD = re.compile(r"(?<=\w\w[.!?;])\s+|\n+|;\s+|\s*\|\s*|\s+[–—-]\s+")
"""Ends of sentences; "e.g. " and "1. " are none."""
_NUMBERED = re.compile(r"(?:^|\s+)\d\d?[.)]\s+")
_EXCEPT = re.compile(r",?\s+\(?(?:unless|except)\b.*$", re.IGNORECASE | re.DOTALL)
_THANKS = r"(?:please|pls|thanks|thank you|thx)(?: (?:in advance|so much|a lot))?\W*"
_WORDS = "and|but|or|nor|with|yet|plus|though"
_SOFT = re.compile(
    rf"\s*,(?!\s*{_THANKS}$)\s*(?:(?:{_WORDS})\s+)?|\s+(?:{_WORDS})\s+|\s+(?:instead of|rather than|as opposed to)\s+|"
    r"\s+(?=(?:ideally|preferably|especially|above all|most of all|most importantly)\s)",
    re.IGNORECASE,
)
_WITHOUT = re.compile(
    r"(?!.*(?:\b(?:no|not|never|nothing)\b|n't).*without)(?:\S+\s+){0,2}\S+(?<!\bbut|\band)(\s+)"
    r"without(?! (?:losing|leaving|dropping|skipping|missing|cutting))(?:\s+\S+){1,6}$",
    re.IGNORECASE,
)
_NOT = re.compile(
    r"(?!.*(?:\b(?:no|never|is|are|was|do|does|did|should|must|can|could|will|would|may|but|and|or|if|why)|['’]\w+)"
    r" not )"
    r"(?:\S+\s+){0,2}\S+(\s+not\s+)(?!too |so |overly |that |only |just |to )(?:\S+\s*){1,3}$",
    re.IGNORECASE,
)
"""These are joints in short lines alone: "short answers without lists", "examples not theory"."""
_OWN = re.compile(
    rf"(?:no|not|without|never|more|less|fewer)\b|{_STRONG.pattern}|{_WEAK.pattern}|so\s+(?:much|many)\b", re.IGNORECASE
)
_REJECTED = re.compile(
    r"(?:(?:hell|oh|absolutely|definitely|please) )?(?:no(?: thanks?| thank you| way)?|nope|never)|"
    r"not (?:me|for me|any ?more|my thing)|(?:but )?i (?:don'?t|do not|hate (?:it|them|that)|can'?t stand (?:it|them))",
    re.IGNORECASE,
)
_INDIFFERENT = re.compile(r"\b(?:don['’]?t|do not|doesn['’]?t) care (?:about|if|whether|how|what)\b", re.IGNORECASE)


def sentences(text: str) -> Iterator[Span]:
    """Parts at the ends of sentences and of items of a numbered list, without exceptions ("unless ...") and thanks."""
    hard = _joints(_HARD, text)
    if len(numbers := _joints(_NUMBERED, text)) > 1 and not text[: numbers[0][0]].strip():
        hard = sorted([*hard, *numbers])
    edges = [(0, 0), *hard, (len(text), len(text))]
    parts = [(before, after) for (_, before), (after, _) in pairwise(edges) if text[before:after].strip()]
    for place, (start, end) in enumerate(parts):
        part = text[start:end]
        if not (place and re.fullmatch(_THANKS, part.strip(), re.IGNORECASE)):
            yield start, start + len(_EXCEPT.sub("", part))


def joints(part: str) -> list[Span]:
    """Where a sentence may be split, outside of quotations: commas, conjunctions, contrasts, words that weigh."""
    short = (match.span(1) for match in (_WITHOUT.match(part), _NOT.match(part)) if match)
    return sorted({*_joints(_SOFT, part), *short})


def is_contrast(joint: str) -> bool:
    """Whether what follows is only what is not meant: "code instead of prose"."""
    return joint.split()[-1:] in (["of"], ["than"], ["to"], ["not"])


def without_article(text: str) -> str:
    """The text without "the" and the like before it."""
    return re.sub(r"^(?:the|any|all|those|these)\s+", "", text, flags=re.IGNORECASE)


def stands_apart(part: str) -> bool:
    """Whether a part asks apart from the one before: "fewer words, more examples"."""
    return _OWN.match(part) is not None


def is_limit(part: str) -> bool:
    """Whether a part says how much is too much: of two, both count, "not too long, not too short"."""
    return re.match(r"(?:not |nor |never )?too\b", part, re.IGNORECASE) is not None


def rejects(part: str) -> bool:
    """Whether a part only turns round what was before: "emoji? no thanks"."""
    return _REJECTED.fullmatch(part.strip(" .!?,")) is not None


def is_indifferent(part: str) -> bool:
    """Whether a part says that something does not matter."""
    return _INDIFFERENT.search(part) is not None


def weight(part: str, strong: float, weak: float) -> float:
    """How much a part counts by its words."""
    return strong if _STRONG.search(part) else weak if _WEAK.search(part) else 1.0


def with_noun(text: str, following: str) -> str:
    """A single word with the noun that it shares: "short" before "simple sentences" is "short sentences"."""
    words = following.split()
    shares = len(text.split()) == 1 and len(words) == 2 and not is_own(following)
    return f"{text} {words[1]}" if shares else text


def _joints(pattern: re.Pattern[str], text: str) -> list[Span]:
    quoted = [match.span() for match in _QUOTED.finditer(text)]
    spans = (match.span() for match in pattern.finditer(text))
    return [span for span in spans if not any(start < span[0] < end for start, end in quoted)]
