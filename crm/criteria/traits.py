"""A first guess at criteria without any language model. In: preferences. Out: criteria from traits that can be counted.

What this is: a deterministic baseline for tests, demonstrations and a first look at data. It counts surface traits of
the two responses (words, list items, question marks and the like), takes those in which they clearly differ and words
each as a wish, in opposite directions for the two sides. Swapping the responses swaps the sides.

What it is not: it does not read. It knows nothing of content, truth, tone or why anybody chose; its word lists are
English. Criteria made here repeat what the counts say, so a model trained on them learns these counts, and results on
them say nothing about what people care about. The paper's way is `crm.criteria.extraction`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from crm.criteria.trait_wordings import WORDINGS
from crm.io.draws import generator
from crm.schema import Message, Preference

MAX_TRAITS = 4
"""Criteria a side at most: those of the traits that differ most, in units of their thresholds."""


@dataclass(frozen=True, slots=True)
class Trait:
    """Something to count in a response. Two responses differ if their measures are ``threshold`` or more apart.

    A measure that is not a number (too little text) differs from nothing.
    """

    name: str
    measure: Callable[[str], float]
    threshold: float


@dataclass(frozen=True, slots=True)
class Described:
    """A preference with criteria from traits. ``status``: ``described``, ``given`` (had some) or ``no_difference``."""

    preference: Preference
    status: str


def describe(preferences: Sequence[Preference], seed: int) -> list[Described]:
    """Criteria and their topics (names of traits) for every preference without criteria, in the order given.

    The wordings depend on (seed, preference id) only. Where nothing differs clearly a row stays without criteria.
    """
    return [_describe(preference, seed) for preference in preferences]


def differences(response_a: str, response_b: str) -> list[tuple[str, int]]:
    """Traits in which two texts clearly differ, the strongest first, with 1 where A has more of it and -1 where B."""
    found = []
    for trait in TRAITS:
        gap = (trait.measure(response_a) - trait.measure(response_b)) / trait.threshold
        # The margin keeps a gap of exactly the threshold on the same side in either order.
        if abs(gap) >= 1 - 1e-9:
            found.append((abs(gap), trait.name, 1 if gap > 0 else -1))
    found.sort(key=lambda item: -item[0])
    return [(name, sign) for _, name, sign in found]


def _describe(preference: Preference, seed: int) -> Described:
    if preference.criteria_a or preference.criteria_b:
        return Described(preference, "given")
    found = differences(_text(preference.response_a), _text(preference.response_b))[:MAX_TRAITS]
    if not found:
        return Described(preference, "no_difference")
    names = tuple(name for name, _ in found)
    described = replace(
        preference,
        criteria_a=tuple(_wording(seed, preference.id, name, sign) for name, sign in found),
        criteria_b=tuple(_wording(seed, preference.id, name, -sign) for name, sign in found),
        criteria_topics_a=names,
        criteria_topics_b=names,
    )
    return Described(described, "described")


def _wording(seed: int, identifier: str, name: str, sign: int) -> str:
    """Drawn without regard to the side, so that swapping the responses swaps the criteria."""
    more, less = WORDINGS[name]
    return generator(seed, 0, identifier, f"trait {name} {sign}").choice(more if sign > 0 else less)


def _text(messages: Iterable[Message]) -> str:
    return "\n\n".join(turn.content for turn in messages if turn.role == "assistant")


_CODE = re.compile(r"^ {0,3}```.*?(?:^ {0,3}```|\Z)", re.DOTALL | re.MULTILINE)
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_SENTENCE = re.compile(r"[.!?…]+(?=[\s\"'”’)]|$)|\n+")
_LIST_ITEM = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+\S", re.MULTILINE)
_NO_SENTENCE = re.compile(r"^\s*(?:(?:[-*+•]|\d{1,3}[.)])\s+|#{1,6}\s).*$", re.MULTILINE)
_EMPHASIS = re.compile(r"^ {0,3}#{1,6}\s+\S|\*\*[^*\n]+\*\*|__[^_\n]+__", re.MULTILINE)
_QUESTION = re.compile(r"\?(?=[\s\"'”’)*]|$)")
_LIVELY = re.compile("!+(?=[\\s\"'”’)*]|$)|[\U0001f300-\U0001faff\u2600-\u27bf]")
_FIGURE = re.compile(r"(?<![\w.])[$€£]?\d[\d,.]*%?")
_QUOTE = re.compile(r"\"[^\"\n]{2,300}\"|“[^”\n]{2,300}”|«[^»\n]{2,300}»|^>\s+\S", re.MULTILINE)


def _phrases(*phrases: str) -> re.Pattern[str]:
    return re.compile(r"\b(?:" + "|".join(phrases) + r")\b", re.IGNORECASE)


_HEDGES = _phrases(
    "may", "might", "could", "perhaps", "maybe", "possibly", "probably", "likely", "seems?", "appears?", "generally",
    "typically", "usually", "often", "sometimes", "tends? to", "it depends", "not sure", "in some cases", "roughly",
)  # fmt: skip
_FIRST_PERSON = _phrases("i", "i['’](?:m|d|ve|ll)", "me", "my", "mine", "myself")
_EXAMPLES = _phrases("for example", "for instance", "such as", "e\\.g", "to illustrate", "imagine")
_POLITE = _phrases(
    "hello", "hi there", "dear", "thanks?", "thank you", "please", "you['’]re welcome", "great question", "good luck",
    "happy to help", "glad to help", "hope this helps", "feel free", "let me know", "sorry", "of course", "certainly",
)  # fmt: skip
_DECLINES = re.compile(
    r"\b(?:i(?:['’]m| am) (?:unable|not able|sorry,? but i)|as an ai\b|i (?:can['’]t|cannot|can not|won['’]t) "
    r"(?:help|assist|provide|write|answer|do that|share|give|create|discuss|comply))",
    re.IGNORECASE,
)


def _prose(text: str) -> str:
    """The text without code blocks and without the markers of list items, whose numbers are no figures."""
    return re.sub(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+", "", _CODE.sub("\n", text), flags=re.MULTILINE)


def _words(text: str) -> list[str]:
    return _WORD.findall(_prose(text))


def _length(text: str) -> float:
    return math.log(10 + len(text.split()))


def _sentence_length(text: str) -> float:
    """Log of the mean number of words in a sentence; sentences end at a mark or a line end.

    List items and headings are no sentences. Below 10 words there is nothing to measure: not a number.
    """
    lengths = [
        len(words)
        for part in _SENTENCE.split(_NO_SENTENCE.sub("", _CODE.sub("\n", text)))
        if (words := _WORD.findall(part))
    ]
    return math.log(sum(lengths) / len(lengths)) if sum(lengths) >= 10 else math.nan


def _long_words(text: str) -> float:
    """Share of words with 7 letters or more, as in the readability index LIX; 20 words of average weight damp it."""
    words = _words(text)
    return (sum(len(word) >= 7 for word in words) + 0.25 * 20) / (len(words) + 20)


def _number(pattern: re.Pattern[str]) -> Callable[[str], float]:
    """Log of 1 + occurrences in prose: 3 against 0 is a great difference, 23 against 20 is none."""
    return lambda text: math.log1p(len(pattern.findall(_prose(text))))


def _rate(pattern: re.Pattern[str]) -> Callable[[str], float]:
    """Occurrences in 100 words of prose; a text below 100 words counts as 100, so that one word is no rate."""

    def per_hundred(text: str) -> float:
        prose = _prose(text)
        return 100 * len(pattern.findall(prose)) / max(100, len(_WORD.findall(prose)))

    return per_hundred


TRAITS = (
    Trait("Length", _length, math.log(1.5)),  # 1.5 times as many words (10 added to both)
    Trait("Lists", lambda text: math.log1p(len(_LIST_ITEM.findall(_CODE.sub("\n", text)))), math.log(4)),  # 3 to 0
    Trait("Headings and emphasis", _number(_EMPHASIS), math.log(3)),  # 2 to 0, 8 to 2
    Trait("Code", lambda text: math.log1p(len(_CODE.findall(text))), math.log(2)),  # 1 block to 0, 3 to 1
    Trait("Sentence length", _sentence_length, math.log(1.5)),  # 1.5 times as many words a sentence
    Trait("Vocabulary", _long_words, 0.1),  # 10 points of the share of long words
    Trait("Questions to the reader", _number(_QUESTION), math.log(2)),  # 1 to 0, 3 to 1
    Trait("Liveliness", _number(_LIVELY), math.log(3)),  # 2 exclamation marks or emoji to 0, 8 to 2
    Trait("Caution", _rate(_HEDGES), 1.5),  # 1.5 hedges more in 100 words
    Trait("First person", _rate(_FIRST_PERSON), 2.5),  # 2.5 words more in 100
    Trait("Figures", _rate(_FIGURE), 2.0),  # 2 numbers more in 100 words
    Trait("Examples", _number(_EXAMPLES), math.log(2)),  # 1 to 0, 3 to 1
    Trait("Quotations", _number(_QUOTE), math.log(3)),  # 2 to 0, 8 to 2
    Trait("Courtesy", _number(_POLITE), math.log(3)),  # 2 to 0, 8 to 2
    Trait("Declining", lambda text: float(bool(_DECLINES.search(text[:400]))), 1.0),  # one declines, one does not
)
"""Every trait, with its threshold in words. Where two differ equally, the earlier one counts as the stronger."""
