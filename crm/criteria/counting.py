"""Count what a response shows: length, lists, hedges, figures and the like.

Measures are surface: they know nothing of content or truth, and their word lists are English.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from crm.io.words import count_words, split_words

CODE = re.compile(r"^ {0,3}```.*?(?:^ {0,3}```|\Z)", re.DOTALL | re.MULTILINE)
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_SENTENCE = re.compile(r"[.!?…]+(?=[\s\"'”’)]|$)|[。！？｡။។]+|\n+")
_ITEM_MARK = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+", re.MULTILINE)
_ITEM = re.compile(_ITEM_MARK.pattern + r"\S", re.MULTILINE)
_NO_SENTENCE = re.compile(r"^\s*(?:(?:[-*+•]|\d{1,3}[.)])\s+|#{1,6}\s).*$", re.MULTILINE)
_TOKEN = re.compile(r"\w+")


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

    @cached_property
    def tokens(self) -> Counter[str]:
        """How often each run of letters and digits is in `lower`: "don't" is "don" and "t"."""
        return Counter(_TOKEN.findall(self.lower))


Formula = Callable[[Text], float]


@dataclass(frozen=True, slots=True)
class Measure:
    """A number of a text; the larger, the more of it. NaN where a text is too short to say.

    Two texts differ clearly if their numbers are ``clear`` or more apart.
    """

    formula: Formula
    clear: float

    def __call__(self, text: Text | str) -> float:
        """The number of a text; give a `Text` to several measures."""
        return self.formula(Text(text) if isinstance(text, str) else text)


def words(text: str) -> list[str]:
    """Words of letters; of scripts without spaces, each character."""
    return [word for run in _WORD.findall(text) for word in split_words(run)]


def phrases(alternatives: str) -> Callable[[Text], int]:
    """Occurrences of whole words and phrases, whatever their case; ``alternatives`` in small letters, between ``|``.

    Plain words are looked up, the others are patterns. No phrase may begin or end with one of the plain words.
    """
    given = alternatives.split("|")
    plain = [word for word in given if word.isalpha()]
    other = [word for word in given if not word.isalpha()]
    pattern = re.compile(rf"\b(?:{'|'.join(other)})\b") if other else None

    def count(text: Text) -> int:
        found = sum(text.tokens[word] for word in plain)
        return found + len(pattern.findall(text.lower)) if pattern else found

    return count


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


def _length(text: Text) -> float:
    """Log of the number of words, 10 added."""
    return math.log(10 + count_words(text.raw))


def _mean_length(parts: list[str], least: int) -> float:
    """Log of the mean number of words of parts that have some; with fewer than ``least`` words in all NaN."""
    lengths = [len(found) for part in parts if (found := words(part))]
    return math.log(sum(lengths) / len(lengths)) if sum(lengths) >= least else math.nan


def _long_words(text: Text) -> float:
    """Share of words with 7 letters or more, as in the readability index LIX; 20 words of average weight damp it."""
    return (sum(len(word) >= 7 for word in text.words) + 0.25 * 20) / (len(text.words) + 20)


_FORMATTED = re.compile(r"^ {0,3}#{1,6}\s+\S|\*\*[^*\n]+\*\*|__[^_\n]+__", re.MULTILINE)
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

MEASURES: dict[str, Measure] = {
    "Length": Measure(_length, math.log(1.5)),  # 1.5 times as many words
    "Lists": Measure(number(lambda text: len(_ITEM.findall(text.without_code))), math.log(4)),  # 3 to 0
    "Headings and emphasis": Measure(
        number(lambda text: len(_FORMATTED.findall(text.prose))), math.log(3)
    ),  # 2 to 0, 8 to 2
    "Code": Measure(
        number(lambda text: len(CODE.findall(text.raw)) if "```" in text.raw else 0), math.log(2)
    ),  # 1 block to 0, 3 to 1
    "Sentence length": Measure(
        lambda text: _mean_length(_SENTENCE.split(_NO_SENTENCE.sub("", text.without_code)), 10), math.log(1.5)
    ),  # 1.5 times as many words a sentence
    "Vocabulary": Measure(_long_words, 0.1),  # 10 points of the share of long words
    "Questions to the reader": Measure(number(pattern(r"\?(?=[\s\"'”’)*]|$)|？")), math.log(2)),  # 1 to 0, 3 to 1
    "Liveliness": Measure(
        number(pattern("！+|!+(?=[\\s\"'”’)*]|$)|[\U0001f300-\U0001faff\u2600-\u27bf]")), math.log(3)
    ),  # 2 exclamation marks or emoji to 0
    "Caution": Measure(
        rate(
            phrases(
                "may|might|could|perhaps|maybe|possibly|probably|likely|seem|seems|appear|appears|generally|typically|usually|"
                "often|sometimes|tends? to|it depends|not sure|in some cases|roughly"
            )
        ),
        1.5,
    ),  # 1.5 more in 100 words
    "First person": Measure(rate(phrases("i|me|my|mine|myself")), 2.5),  # 2.5 more in 100 words
    "Figures": Measure(rate(pattern(r"(?<![\w.])[$€£]?\d[\d,.]*%?")), 2.0),  # 2 more in 100 words
    "Examples": Measure(
        number(phrases("for example|for instance|such as|e\\.g|to illustrate|imagine")), math.log(2)
    ),  # 1 to 0, 3 to 1
    "Quotations": Measure(
        number(pattern(r"(?m)\"[^\"\n]{2,300}\"|“[^”\n]{2,300}”|«[^»\n]{2,300}»|^>\s+\S")), math.log(3)
    ),  # 2 to 0, 8 to 2
    "Courtesy": Measure(
        number(
            phrases(
                "hello|hi there|dear|thanks|thank|please|you're welcome|great question|good luck|happy to help|"
                "glad to help|hope this helps|feel free|let me know|sorry|of course|certainly"
            )
        ),
        math.log(3),
    ),  # 2 to 0, 8 to 2
    "Declining": Measure(lambda text: float(bool(_DECLINES.search(text.raw[:400]))), 1.0),  # one declines, one does not
    "Addressing the reader": Measure(rate(phrases("you|your|yours|yourself|yourselves")), 2.5),  # 2.5 words more in 100
    "Contractions": Measure(rate(lambda text: len(_CONTRACTION.findall(text.lower))), 1.0),  # 1 more in 100 words
    "Positive words": Measure(
        rate(
            phrases(
                "great|wonderful|amazing|excellent|beautiful|perfect|delicious|enjoy\\w*|love\\w*|fantastic|exciting|happy|"
                "helpful|best|joy\\w*|delight\\w*|fun|impressive|valuable|unique|special|success\\w*|inspir\\w*|vibrant|"
                "thrilling|good|better|nice|easy|effective\\w*|benefit\\w*|comfort\\w*|rich|fresh|positive\\w*|improv\\w*"
            )
        ),
        2.0,
    ),  # 2 more in 100 words
    "Openings": Measure(lambda text: float(bool(_OPENING.search(text.raw[:80]))), 1.0),  # one has an opening phrase
    "Closings": Measure(
        lambda text: float(bool(_CLOSING.search(text.raw.rstrip()[-160:]))), 1.0
    ),  # one has a closing phrase
    "Summaries": Measure(
        number(
            phrases(
                "in conclusion|in summary|to sum up|to summari[sz]e|overall|in short|all in all|ultimately|to conclude|"
                "in essence|in brief|the bottom line|key takeaways?|tl;dr"
            )
        ),
        math.log(2),
    ),  # 1 to 0, 3 to 1
    "Sources": Measure(
        number(lambda text: _cited(text) + len(_SOURCE.findall(text.prose))), math.log(3)
    ),  # 2 to 0, 8 to 2
    "Paragraph length": Measure(
        lambda text: _mean_length(re.split(r"\n\s*\n", text.without_code), 30), math.log(2)
    ),  # twice as many words a paragraph
    "Asides": Measure(number(pattern(r"\([^()\n]*[^\W\d_]{2}[^()\n]*\)")), math.log(2.5)),  # 2 to 0 and more
    "Reasons": Measure(
        rate(
            phrases(
                "because|therefore|thus|since|so that|hence|as a result|due to|consequently|reason|reasons|which means|"
                "this means|leads? to|in order to|why|cause|causes|caused|thereby"
            )
        ),
        1.0,
    ),  # 1 more in 100 words
    "Order words": Measure(
        rate(
            phrases(
                "first|firstly|second|secondly|third|thirdly|next|then|finally|lastly|afterwards|after that|to begin|"
                "to start|last|step|before|once"
            )
        ),
        1.0,
    ),  # 1 more in 100 words
    "Advice": Measure(
        rate(
            phrases(
                "should|must|need to|have to|ought|recommend\\w*|make sure|be sure|ensure|try to|avoid|consider|"
                "it's important|it is important|remember to|don't forget|advis\\w*"
            )
        ),
        1.5,
    ),  # 1.5 more in 100 words
    "Names": Measure(rate(pattern(r"(?<=[a-z,;:)] )(?!I\b)[A-Z][a-z]{2,}")), 2.5),  # 2.5 more in 100 words
    "Past tense": Measure(
        rate(lambda text: _irregular(text) + len(_PAST.findall(text.lower))), 3.0
    ),  # 3 verbs more in 100 words
    "Emphatic words": Measure(
        rate(
            phrases(
                "very|really|extremely|absolutely|truly|highly|incredibly|completely|totally|especially|deeply|quite|"
                "entirely|particularly|fully|greatly|always|never|most"
            )
        ),
        1.2,
    ),  # 1.2 more in 100 words
    "Togetherness": Measure(rate(phrases("we|us|our|ours|ourselves|let's")), 1.5),  # 1.5 more in 100 words
}
"""What can be counted, by name. What is beside ``clear`` says it in words."""
