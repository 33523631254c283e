"""What can be counted in a text. In: a response. Out: a number a trait, higher where the response has more of it.

Traits are surface: they know nothing of content or truth, and their word lists are English.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from crm.io.words import count_words, split_words


@dataclass(frozen=True, slots=True)
class Trait:
    """Something to count in a response. Two responses differ if their measures are ``threshold`` or more apart.

    A measure that is not a number (too little text) differs from nothing.
    """

    name: str
    measure: Callable[[str], float]
    threshold: float


_CODE = re.compile(r"^ {0,3}```.*?(?:^ {0,3}```|\Z)", re.DOTALL | re.MULTILINE)
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_SENTENCE = re.compile(r"[.!?…]+(?=[\s\"'”’)]|$)|[。！？｡។။]+|\n+")
_ITEM_MARK = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+", re.MULTILINE)
_LIST_ITEM = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+\S", re.MULTILINE)
_NO_SENTENCE = re.compile(r"^\s*(?:(?:[-*+•]|\d{1,3}[.)])\s+|#{1,6}\s).*$", re.MULTILINE)
_EMPHASIS = re.compile(r"^ {0,3}#{1,6}\s+\S|\*\*[^*\n]+\*\*|__[^_\n]+__", re.MULTILINE)
_QUESTION = re.compile(r"\?(?=[\s\"'”’)*]|$)|？")
_LIVELY = re.compile("！+|!+(?=[\\s\"'”’)*]|$)|[\U0001f300-\U0001faff\u2600-\u27bf]")
_FIGURE = re.compile(r"(?<![\w.])[$€£]?\d[\d,.]*%?")
_QUOTE = re.compile(r"\"[^\"\n]{2,300}\"|“[^”\n]{2,300}”|«[^»\n]{2,300}»|^>\s+\S", re.MULTILINE)
_ASIDE = re.compile(r"\([^()\n]*[^\W\d_]{2}[^()\n]*\)")
_NAME = re.compile(r"(?<=[a-z,;:)] )(?!I\b)[A-Z][a-z]{2,}")
_BLANK_LINE = re.compile(r"\n\s*\n")


def _phrases(*phrases: str) -> re.Pattern[str]:
    return re.compile(r"\b(?:" + "|".join(phrases) + r")\b", re.IGNORECASE)


_HEDGES = _phrases(
    "may", "might", "could", "perhaps", "maybe", "possibly", "probably", "likely", "seems?", "appears?", "generally",
    "typically", "usually", "often", "sometimes", "tends? to", "it depends", "not sure", "in some cases", "roughly",
)  # fmt: skip
_FIRST_PERSON = _phrases("i", "i['’](?:m|d|ve|ll)", "me", "my", "mine", "myself")
_SECOND_PERSON = _phrases("you", "you['’](?:re|d|ve|ll)", "your", "yours", "yourself", "yourselves")
_TOGETHER = _phrases("we", "we['’](?:re|d|ve|ll)", "us", "our", "ours", "ourselves", "let['’]s")
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
_CONTRACTIONS = re.compile(
    r"\b(?:\w+n['’]t|(?:i|you|we|they|he|she|it|that|there|here|what|who|let)['’](?:s|m|re|ve|ll|d))\b", re.I
)
_POSITIVE = _phrases(
    "great", "wonderful", "amazing", "excellent", "beautiful", "perfect", "delicious", "enjoy\\w*", "love\\w*",
    "fantastic", "exciting", "happy", "helpful", "best", "joy\\w*", "delight\\w*", "fun", "impressive", "valuable",
    "unique", "special", "success\\w*", "inspir\\w*", "vibrant", "thrilling", "good", "better", "nice", "easy",
    "effective\\w*", "benefit\\w*", "comfort\\w*", "rich", "fresh", "positive\\w*", "improv\\w*",
)  # fmt: skip
_OPENING = re.compile(
    r"^\W*(?:sure|certainly|of course|absolutely|great|thank|thanks|hello|hi\b|here (?:is|are)|here['’]s|okay|ok\b|"
    r"yes[,!]|i['’]d be|i would be|i['’]m (?:happy|glad)|to answer|that['’]s a|what a|let['’]s|"
    r"below (?:is|are)|the following)",
    re.IGNORECASE,
)
_CLOSING = _phrases(
    "hope (?:this|that|you|these|it)", "let me know", "feel free", "good luck", "enjoy", "happy \\w+ing",
    "best of luck", "don['’]t hesitate", "have a (?:great|good|nice|wonderful)",
    "if you (?:have|need|want|would|['’]d)",
    "best regards", "thank you", "would you like", "is there anything", "remember",
)  # fmt: skip
_SUMMARY = _phrases(
    "in conclusion", "in summary", "to sum up", "to summari[sz]e", "overall", "in short", "all in all", "ultimately",
    "to conclude", "in essence", "in brief", "the bottom line", "key takeaways?", "tl;dr",
)  # fmt: skip
_SOURCES = re.compile(
    r"https?://|www\.|\b(?:according to|stud(?:y|ies)|research(?:ers)?|journal|published|authors?|et al|survey|"
    r"report(?:ed|s)?|sources?|references?|universit(?:y|ies)|institute|expert(?:s)?|book)\b|\((?:19|20)\d\d\)",
    re.IGNORECASE,
)
_REASONS = _phrases(
    "because", "therefore", "thus", "since", "so that", "hence", "as a result", "due to", "consequently", "reasons?",
    "which means", "this means", "leads? to", "in order to", "why", "causes?", "caused", "thereby",
)  # fmt: skip
_ORDER = _phrases(
    "first", "firstly", "second", "secondly", "third", "thirdly", "next", "then", "finally", "lastly", "afterwards",
    "after that", "to begin", "to start", "last", "step", "before", "once",
)  # fmt: skip
_ADVICE = _phrases(
    "should", "must", "need to", "have to", "ought", "recommend\\w*", "make sure", "be sure", "ensure", "try to",
    "avoid", "consider", "it['’]s important", "it is important", "remember to", "don['’]t forget", "advis\\w*",
)  # fmt: skip
_PAST = _phrases(
    "was", "were", "had", "did", "went", "came", "became", "began", "made", "took", "said", "told", "saw", "found",
    "gave", "thought", "felt", "knew", "left", "wrote", "led", "grew", "\\w{2,}(?:[^e\\W]|i)ed",
)  # fmt: skip
_EMPHATIC = _phrases(
    "very", "really", "extremely", "absolutely", "truly", "highly", "incredibly", "completely", "totally", "especially",
    "deeply", "quite", "entirely", "particularly", "fully", "greatly", "always", "never", "most",
)  # fmt: skip


def _prose(text: str) -> str:
    """The text without code blocks and without the markers of list items, whose numbers are no figures."""
    return _ITEM_MARK.sub("", _CODE.sub("\n", text))


def _words(text: str) -> list[str]:
    """Words of letters; of scripts without spaces, each character."""
    return [word for run in _WORD.findall(text) for word in split_words(run)]


def _length(text: str) -> float:
    return math.log(10 + count_words(text))


def _sentence_length(text: str) -> float:
    """Log of the mean number of words in a sentence; sentences end at a mark or a line end.

    List items and headings are no sentences. Below 10 words there is nothing to measure: not a number.
    """
    lengths = [
        len(words) for part in _SENTENCE.split(_NO_SENTENCE.sub("", _CODE.sub("\n", text))) if (words := _words(part))
    ]
    return math.log(sum(lengths) / len(lengths)) if sum(lengths) >= 10 else math.nan


def _paragraph_length(text: str) -> float:
    """Log of the mean number of words in a paragraph; a blank line ends one. Below 30 words: not a number."""
    lengths = [len(words) for part in _BLANK_LINE.split(_CODE.sub("\n", text)) if (words := _words(part))]
    return math.log(sum(lengths) / len(lengths)) if sum(lengths) >= 30 else math.nan


def _long_words(text: str) -> float:
    """Share of words with 7 letters or more, as in the readability index LIX; 20 words of average weight damp it."""
    words = _words(_prose(text))
    return (sum(len(word) >= 7 for word in words) + 0.25 * 20) / (len(words) + 20)


def _closing(text: str) -> float:
    return float(bool(_CLOSING.search(text.rstrip()[-160:])))


def _number(pattern: re.Pattern[str]) -> Callable[[str], float]:
    """Log of 1 + occurrences in prose: 3 against 0 is a great difference, 23 against 20 is none."""
    return lambda text: math.log1p(len(pattern.findall(_prose(text))))


def _rate(pattern: re.Pattern[str]) -> Callable[[str], float]:
    """Occurrences in 100 words of prose; a text below 100 words counts as 100, so that one word is no rate."""

    def per_hundred(text: str) -> float:
        prose = _prose(text)
        return 100 * len(pattern.findall(prose)) / max(100, len(_words(prose)))

    return per_hundred


FIRST_TRAITS = (
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
"""Those of the offline annotator, with the threshold in words. Of two that differ equally the earlier is stronger."""

TRAITS = (
    *FIRST_TRAITS,
    Trait("Addressing the reader", _rate(_SECOND_PERSON), 2.5),  # 2.5 words more in 100
    Trait("Contractions", _rate(_CONTRACTIONS), 1.0),  # 1 more in 100 words
    Trait("Positive words", _rate(_POSITIVE), 2.0),  # 2 words more in 100
    Trait("Openings", lambda text: float(bool(_OPENING.search(text[:80]))), 1.0),  # one has an opening phrase
    Trait("Closings", _closing, 1.0),  # one ends with a wish or an offer
    Trait("Summaries", _number(_SUMMARY), math.log(2)),  # 1 to 0, 3 to 1
    Trait("Sources", _number(_SOURCES), math.log(3)),  # 2 to 0, 8 to 2
    Trait("Paragraph length", _paragraph_length, math.log(2)),  # twice as many words a paragraph
    Trait("Asides", _number(_ASIDE), math.log(2.5)),  # 2 to 0 and more
    Trait("Reasons", _rate(_REASONS), 1.0),  # 1 more in 100 words
    Trait("Order words", _rate(_ORDER), 1.0),  # 1 more in 100 words
    Trait("Advice", _rate(_ADVICE), 1.5),  # 1.5 more in 100 words
    Trait("Names", _rate(_NAME), 2.5),  # 2.5 names more in 100 words
    Trait("Past tense", _rate(_PAST), 3.0),  # 3 verbs more in 100 words
    Trait("Emphatic words", _rate(_EMPHATIC), 1.2),  # 1.2 more in 100 words
    Trait("Togetherness", _rate(_TOGETHER), 1.5),  # 1.5 words more in 100
)
"""All that ``data=tastes`` is made of."""
