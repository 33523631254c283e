"""Count what a response shows: length, lists, hedges, figures and the like.

Measures are surface: they know nothing of content or truth, and their word lists are English.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from crm.io.words import count_words, split_words

CODE = re.compile(r"^ {0,3}```.*?(?:^ {0,3}```|\Z)", re.DOTALL | re.MULTILINE)
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_SENTENCE = re.compile(r"[.!?…]+(?=[\s\"'”’)]|$)|[。！？｡။។]+|\n+")
_ITEM_MARK = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+", re.MULTILINE)
_ITEM = re.compile(_ITEM_MARK.pattern + r"\S", re.MULTILINE)
_NO_SENTENCE = re.compile(r"^\s*(?:(?:[-*+•]|\d{1,3}[.)])\s+|#{1,6}\s).*$", re.MULTILINE)


class Text:
    """A response, with what several measures need of it computed once."""

    def __init__(self, raw: str) -> None:
        self.raw = raw

    @cached_property
    def without_code(self) -> str:
        """The text without code blocks."""
        return CODE.sub("\n", self.raw) if "```" in self.raw else self.raw

    @cached_property
    def prose(self) -> str:
        """Also without the markers of list items, whose numbers are no figures."""
        return _ITEM_MARK.sub("", self.without_code)

    @cached_property
    def lower(self) -> str:
        """`prose` in small letters, with straight apostrophes."""
        return self.prose.lower().replace("’", "'")

    @cached_property
    def words(self) -> list[str]:
        """Words of letters in `prose`; of scripts without spaces, each character."""
        return words(self.prose)


Formula = Callable[[Text], float]


@dataclass(frozen=True, slots=True)
class Measure:
    """A number of a text; the larger, the more of it. NaN where a text is too short to say.

    Two texts differ clearly if their numbers are ``clear`` or more apart.
    """

    formula: Formula
    clear: float
    kind: str = ""
    """``log`` of a count, or ``rate`` in 100 words."""

    def count(self, text: str) -> float:
        """The number as people count: occurrences or words in place of their log."""
        found, none = self(text), self("")
        return math.exp(found) - (0.0 if math.isnan(none) else math.exp(none)) if self.kind == "log" else found

    def __call__(self, text: Text | str) -> float:
        """The number of a text; give a `Text` to several measures."""
        return self.formula(Text(text) if isinstance(text, str) else text)


def words(text: str) -> list[str]:
    """Words of letters; of scripts without spaces, each character."""
    return [word for run in _WORD.findall(text) for word in split_words(run)]


def phrases(alternatives: str) -> Callable[[Text], int]:
    """Occurrences of whole words and phrases, whatever their case; ``alternatives`` in small letters, between ``|``."""
    compiled = re.compile(rf"\b(?:{alternatives})\b")
    return lambda text: len(compiled.findall(text.lower))


def pattern(expression: str) -> Callable[[Text], int]:
    """Matches of a pattern in prose."""
    compiled = re.compile(expression)
    return lambda text: len(compiled.findall(text.prose))


def number(count: Callable[[Text], int]) -> Formula:
    """Log of 1 + occurrences: 3 against 0 is a great difference, 23 against 20 is none."""
    return lambda text: math.log1p(count(text))


def rate(count: Callable[[Text], int]) -> Formula:
    """Occurrences in 100 words; a text below 100 words counts as 100, so that one word is no rate."""
    return lambda text: 100 * count(text) / max(100, len(text.words))


def _mean_length(parts: list[str], least: int) -> float:
    """Log of the mean number of words of parts that have some; with fewer than ``least`` words in all NaN."""
    lengths = [len(found) for part in parts if (found := words(part))]
    return math.log(sum(lengths) / len(lengths)) if sum(lengths) >= least else math.nan


def _long_words(text: Text) -> float:
    """Share of words with 7 letters or more, as in the readability index LIX; 20 words of average weight damp it."""
    return (sum(len(word) >= 7 for word in text.words) + 0.25 * 20) / (len(text.words) + 20)


_DECLINES = re.compile(
    r"\b(?:i(?:['’]m| am) (?:unable|not able|sorry,? but i)|as an ai\b|i (?:can['’]t|cannot|can not|won['’]t) "
    r"(?:help|assist|provide|write|answer|do that|share|give|create|discuss|comply))",
    re.IGNORECASE,
)
_OPENING = re.compile(
    r"^\W*(?:sure|certainly|of course|absolutely|great|thank|thanks|hello|hi\b|here (?:is|are)|here['’]s|okay|ok\b|"
    r"yes[,!]|i['’]d be|i would be|i['’]m (?:happy|glad)|to answer|that['’]s a|what a|let['’]s|"
    r"below (?:is|are)|the following)",
    re.IGNORECASE,
)
_CLOSING = re.compile(
    r"\b(?:hope (?:this|that|you|these|it)|let me know|feel free|good luck|enjoy|happy \w+ing|best of luck|"
    r"don['’]t hesitate|have a (?:great|good|nice|wonderful)|if you (?:have|need|want|would|['’]d)|best regards|"
    r"thank you|would you like|is there anything|remember)\b",
    re.IGNORECASE,
)
_CONTRACTION = re.compile(r"\b(?:\w+n't|(?:i|you|we|they|he|she|it|that|there|here|what|who|let)'(?:s|m|re|ve|ll|d))\b")
_SOURCE = re.compile(r"https?://|www\.|\((?:19|20)\d\d\)")
_cited = phrases(
    "according to|study|studies|research|researcher|researchers|journal|published|author|authors|et al|survey|report|"
    "reports|reported|source|sources|reference|references|university|universities|institute|expert|experts|book"
)
_PAST = re.compile(r"\b(?:\w{2,}(?:[^e\W]|i)ed)\b")
_irregular = phrases(
    "was|were|had|did|went|came|became|began|made|took|saw|found|gave|thought|felt|knew|left|wrote|led|"
    "said|told|grew"  # codespell:ignore said,told
)

FORMULAS: dict[str, Formula] = {
    "Length": lambda text: math.log(10 + count_words(text.raw)),
    "Lists": number(lambda text: len(_ITEM.findall(text.without_code))),
    "Code": number(lambda text: len(CODE.findall(text.raw)) if "```" in text.raw else 0),
    "Sentence length": lambda text: _mean_length(_SENTENCE.split(_NO_SENTENCE.sub("", text.without_code)), 10),
    "Vocabulary": _long_words,
    "Declining": lambda text: float(bool(_DECLINES.search(text.raw[:400]))),
    "Contractions": rate(lambda text: len(_CONTRACTION.findall(text.lower))),
    "Openings": lambda text: float(bool(_OPENING.search(text.raw[:80]))),
    "Closings": lambda text: float(bool(_CLOSING.search(text.raw.rstrip()[-160:]))),
    "Sources": number(lambda text: _cited(text) + len(_SOURCE.findall(text.prose))),
    "Paragraph length": lambda text: _mean_length(re.split(r"\n\s*\n", text.without_code), 30),
    "Past tense": rate(lambda text: _irregular(text) + len(_PAST.findall(text.lower))),
}
"""Of measures that are more than phrases or a pattern."""
UNITLESS = ("Vocabulary", "Declining", "Openings", "Closings")
"""A share, and what there is or is not."""


def _measure(name: str, entry: Mapping[str, Any]) -> Measure:
    """What an entry of measures.yaml says."""
    kind = "log" if "factor" in entry else "" if name in UNITLESS else "rate"
    clear = math.log(entry["factor"]) if kind == "log" else entry["clear"]
    if name in FORMULAS:
        return Measure(FORMULAS[name], clear, kind)
    count = phrases(entry["phrases"]) if "phrases" in entry else pattern(entry["pattern"])
    return Measure(number(count) if kind == "log" else rate(count), clear, kind)


_FILE = Path(__file__).with_name("measures.yaml")
_LISTED = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
MEASURES: dict[str, Measure] = {name: _measure(name, entry) for name, entry in _LISTED.items()}
"""What can be counted, by name."""
DIGEST = hashlib.sha256(Path(__file__).read_bytes() + _FILE.read_bytes()).hexdigest()[:16]
"""Of all measures."""
