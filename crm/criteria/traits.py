"""A first guess at criteria without a language model: measurable traits in which two responses clearly differ.

A deterministic baseline for tests, demonstrations and a first look at data. It counts words, list items, question
marks and the like and turns each clear difference into a criterion, in opposite directions for the two sides. It knows
nothing of content or truth, its word lists are English, and a model trained on its criteria learns to count.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from crm.criteria.extraction import Extraction, has_criteria
from crm.io.draws import generator
from crm.io.words import count_words, split_words
from crm.schema import Message, Preference

MAX_TRAITS = 4
"""Criteria a side at most: those of the traits that differ most, in units of their thresholds."""


@dataclass(frozen=True, slots=True)
class Trait:
    """Something to measure. Two responses differ if their measures are ``threshold`` or more apart; NaN never differs.

    ``more`` and ``less`` are criteria of users who want more, or less, of it.
    """

    name: str
    measure: Callable[[str], float]
    threshold: float
    more: tuple[str, ...] = ()
    less: tuple[str, ...] = ()


def describe(preferences: Iterable[Preference], seed: int) -> list[Extraction]:
    """Criteria and their topics (names of traits) for every preference without criteria, in the order given.

    ``status`` is ``described``, ``given`` (it has some) or ``no_difference``. The wordings depend on (seed, preference
    id) only.
    """
    return [_describe(preference, seed) for preference in preferences]


def differences(response_a: str, response_b: str) -> list[tuple[str, int]]:
    """Traits in which two texts clearly differ, the strongest first, with 1 where A has more of it and -1 where B."""
    found = []
    for trait in TRAITS.values():
        gap = (trait.measure(response_a) - trait.measure(response_b)) / trait.threshold
        # The margin keeps a gap of exactly the threshold on the same side in either order.
        if abs(gap) >= 1 - 1e-9:
            found.append((abs(gap), trait.name, 1 if gap > 0 else -1))
    found.sort(key=lambda item: -item[0])
    return [(name, sign) for _, name, sign in found]


def _describe(preference: Preference, seed: int) -> Extraction:
    if has_criteria(preference):
        return Extraction(preference, "given")
    found = differences(_text(preference.response_a), _text(preference.response_b))[:MAX_TRAITS]
    if not found:
        return Extraction(preference, "no_difference")
    names = tuple(name for name, _ in found)
    described = replace(
        preference,
        criteria_a=tuple(_wording(seed, preference.id, name, sign) for name, sign in found),
        criteria_b=tuple(_wording(seed, preference.id, name, -sign) for name, sign in found),
        criteria_topics_a=names,
        criteria_topics_b=names,
    )
    return Extraction(described, "described")


def _wording(seed: int, identifier: str, name: str, sign: int) -> str:
    """Drawn without regard to the side, so that swapping the responses swaps the criteria."""
    sentences = TRAITS[name].more if sign > 0 else TRAITS[name].less
    return generator(seed, 0, identifier, f"trait {name} {sign}").choice(sentences)


def _text(messages: Sequence[Message]) -> str:
    return "\n\n".join(turn.content for turn in messages if turn.role == "assistant")


CODE = re.compile(r"^ {0,3}```.*?(?:^ {0,3}```|\Z)", re.DOTALL | re.MULTILINE)
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_SENTENCE = re.compile(r"[.!?…]+(?=[\s\"'”’)]|$)|[。！？｡។။]+|\n+")
_ITEM_MARK = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+", re.MULTILINE)
_NO_SENTENCE = re.compile(r"^\s*(?:(?:[-*+•]|\d{1,3}[.)])\s+|#{1,6}\s).*$", re.MULTILINE)


def prose(text: str) -> str:
    """The text without code blocks and without the markers of list items, whose numbers are no figures."""
    return _ITEM_MARK.sub("", CODE.sub("\n", text))


def words(text: str) -> list[str]:
    """Words of letters; of scripts without spaces, each character."""
    return [word for run in _WORD.findall(text) for word in split_words(run)]


def _sentence_length(text: str) -> float:
    """Log of the mean number of words in a sentence, list items and headings apart; below 10 words NaN."""
    parts = _SENTENCE.split(_NO_SENTENCE.sub("", CODE.sub("\n", text)))
    lengths = [len(found) for part in parts if (found := words(part))]
    return math.log(sum(lengths) / len(lengths)) if sum(lengths) >= 10 else math.nan


def _long_words(text: str) -> float:
    """Share of words with 7 letters or more, as in the readability index LIX; 20 words of average weight damp it."""
    found = words(prose(text))
    return (sum(len(word) >= 7 for word in found) + 0.25 * 20) / (len(found) + 20)


def number(pattern: str) -> Callable[[str], float]:
    """Log of 1 + occurrences in prose: 3 against 0 is a great difference, 23 against 20 is none."""
    compiled = re.compile(pattern)
    return lambda text: math.log1p(len(compiled.findall(prose(text))))


def rate(pattern: str) -> Callable[[str], float]:
    """Occurrences in 100 words of prose; a text below 100 words counts as 100, so that one word is no rate."""
    compiled = re.compile(pattern)
    return lambda text: 100 * len(compiled.findall(plain := prose(text))) / max(100, len(words(plain)))


def phrases(alternatives: str) -> str:
    """A pattern of whole words and phrases, whatever their case."""
    return rf"(?i)\b(?:{alternatives})\b"


_HEDGES = phrases(
    "may|might|could|perhaps|maybe|possibly|probably|likely|seems?|appears?|generally|typically|usually|often|sometimes"
    "|tends? to|it depends|not sure|in some cases|roughly"
)
_POLITE = phrases(
    "hello|hi there|dear|thanks?|thank you|please|you['’]re welcome|great question|good luck|happy to help|"
    "glad to help|hope this helps|feel free|let me know|sorry|of course|certainly"
)
_DECLINES = re.compile(
    r"\b(?:i(?:['’]m| am) (?:unable|not able|sorry,? but i)|as an ai\b|i (?:can['’]t|cannot|can not|won['’]t) "
    r"(?:help|assist|provide|write|answer|do that|share|give|create|discuss|comply))",
    re.IGNORECASE,
)

# Of two traits that differ equally the earlier is the stronger.
_ALL = (
    # 1.5 times as many words (10 added to both)
    Trait("Length", lambda text: math.log(10 + count_words(text)), math.log(1.5),
        ("Wants a full answer that leaves nothing out", "Prefers long, detailed responses"),
        ("Wants it short", "Prefers a brief answer without padding")),
    Trait("Lists", lambda text: math.log1p(len(re.findall(_ITEM_MARK.pattern + r"\S", CODE.sub("\n", text), re.M))),
        math.log(4),  # 3 to 0
        ("Likes points set out as a list", "Prefers bullet points or numbered steps"),
        ("Prefers flowing paragraphs to lists", "Wants connected prose instead of bullet points")),
    Trait("Headings and emphasis", number(r"(?m)^ {0,3}#{1,6}\s+\S|\*\*[^*\n]+\*\*|__[^_\n]+__"),
        math.log(3),  # 2 to 0, 8 to 2
        ("Likes headings and bold key words for orientation", "Prefers important terms to stand out"),
        ("Prefers plain text without headings or bold type", "Dislikes heavy formatting")),
    Trait("Code", lambda text: math.log1p(len(CODE.findall(text))), math.log(2),  # 1 block to 0, 3 to 1
        ("Wants code to copy and try", "Prefers to be shown a program"),
        ("Prefers an explanation in words to code", "Does not want to read source code")),
    Trait("Sentence length", _sentence_length, math.log(1.5),  # 1.5 times as many words a sentence
        ("Enjoys long, winding sentences", "Prefers elaborate sentences that link ideas"),
        ("Prefers short sentences", "Likes a crisp style, one thought a sentence")),
    Trait("Vocabulary", _long_words, 0.1,  # 10 points of the share of long words
        ("Likes an advanced vocabulary", "Prefers precise technical terms to everyday ones"),
        ("Prefers simple everyday words", "Dislikes jargon and long words")),
    Trait("Questions to the reader", number(r"\?(?=[\s\"'”’)*]|$)|？"), math.log(2),  # 1 to 0, 3 to 1
        ("Likes to be asked questions in return", "Enjoys a dialogue that draws the reader in"),
        ("Wants answers, not questions", "Dislikes rhetorical questions")),
    Trait("Liveliness", number("！+|!+(?=[\\s\"'”’)*]|$)|[\U0001f300-\U0001faff\u2600-\u27bf]"),
        math.log(3),  # 2 exclamation marks or emoji to 0, 8 to 2
        ("Enjoys an excited, lively tone", "Likes exclamations and emoji"),
        ("Prefers a calm and sober tone", "Dislikes exclamation marks and emoji")),
    Trait("Caution", rate(_HEDGES), 1.5,  # 1.5 hedges more in 100 words
        ("Values careful statements that admit doubt", "Wants limits and exceptions to be named"),
        ("Wants clear and firm statements", "Dislikes hedging")),
    Trait("First person", rate(phrases("i|i['’](?:m|d|ve|ll)|me|my|mine|myself")), 2.5,  # 2.5 words more in 100
        ("Likes an assistant that speaks of itself", "Prefers a personal voice that says I"),
        ("Prefers an impersonal style", "Dislikes an assistant that talks about itself")),
    Trait("Figures", rate(r"(?<![\w.])[$€£]?\d[\d,.]*%?"), 2.0,  # 2 numbers more in 100 words
        ("Wants numbers and dates", "Prefers claims backed by figures"),
        ("Prefers words to numbers", "Does not care for statistics")),
    Trait("Examples", number(phrases("for example|for instance|such as|e\\.g|to illustrate|imagine")),
        math.log(2),  # 1 to 0, 3 to 1
        ("Wants examples", "Prefers ideas shown on concrete cases"),
        ("Prefers the principle without examples", "Can do without illustrations")),
    Trait("Quotations", number(r"(?m)\"[^\"\n]{2,300}\"|“[^”\n]{2,300}”|«[^»\n]{2,300}»|^>\s+\S"),
        math.log(3),  # 2 to 0, 8 to 2
        ("Enjoys quotations and direct speech", "Prefers answers that quote"),
        ("Prefers an answer in its own words, without quotations", "Likes things retold rather than quoted")),
    Trait("Courtesy", number(_POLITE), math.log(3),  # 2 to 0, 8 to 2
        ("Values a polite and friendly manner", "Prefers a warm, helpful tone"),
        ("Wants to get to the point without pleasantries", "Dislikes polite phrases")),
    Trait("Declining", lambda text: float(bool(_DECLINES.search(text[:400]))), 1.0,  # one declines, one does not
        ("Prefers an assistant that declines doubtful requests", "Values restraint over compliance"),
        ("Wants the request to be fulfilled", "Dislikes refusals")),
)  # fmt: skip
TRAITS = {trait.name: trait for trait in _ALL}
