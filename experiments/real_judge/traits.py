"""Traits that can be counted in a response, and how a preference for more or less of one is put into words.

Traits are surface: they know nothing of content or truth, and their word lists are English. Sentences of ``training``
and ``unseen`` (``wordings.yaml``) were written apart, and no sentence is in both. More to train on comes from noun
phrases in frames: to like "bullet points" is the criterion that "dislikes flowing prose" is too.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from crm.criteria.traits import CODE, Trait, number, phrases, rate, words
from crm.criteria.traits import TRAITS as FIRST

FRAMES = 3
"""Frames that a noun phrase is put into."""
_SECOND_PERSON = phrases(r"you|you['’](?:re|d|ve|ll)|your|yours|yourself|yourselves")
_TOGETHER = phrases(r"we|we['’](?:re|d|ve|ll)|us|our|ours|ourselves|let['’]s")
_POSITIVE = phrases(
    r"great|wonderful|amazing|excellent|beautiful|perfect|delicious|enjoy\w*|love\w*|fantastic|exciting|happy|"
    r"helpful|best|joy\w*|delight\w*|fun|impressive|valuable|unique|special|success\w*|inspir\w*|vibrant|"
    r"thrilling|good|better|nice|easy|effective\w*|benefit\w*|comfort\w*|rich|fresh|positive\w*|improv\w*"
)
_CLOSING = phrases(
    r"hope (?:this|that|you|these|it)|let me know|feel free|good luck|enjoy|happy \w+ing|best of luck|"
    r"don['’]t hesitate|have a (?:great|good|nice|wonderful)|if you (?:have|need|want|would|['’]d)|best regards|"
    r"thank you|would you like|is there anything|remember"
)
_SUMMARY = phrases(
    r"in conclusion|in summary|to sum up|to summari[sz]e|overall|in short|all in all|ultimately|to conclude|"
    r"in essence|in brief|the bottom line|key takeaways?|tl;dr"
)
_REASONS = phrases(
    r"because|therefore|thus|since|so that|hence|as a result|due to|consequently|reasons?|which means|this means|"
    r"leads? to|in order to|why|causes?|caused|thereby"
)
_ORDER = phrases(
    r"first|firstly|second|secondly|third|thirdly|next|then|finally|lastly|afterwards|after that|to begin|"
    r"to start|last|step|before|once"
)
_ADVICE = phrases(
    r"should|must|need to|have to|ought|recommend\w*|make sure|be sure|ensure|try to|avoid|consider|"
    r"it['’]s important|it is important|remember to|don['’]t forget|advis\w*"
)
_PAST = phrases(
    r"was|were|had|did|went|came|became|began|made|took|saw|found|gave|thought|felt|knew|left|wrote|led|"
    r"said|told|grew|\w{2,}(?:[^e\W]|i)ed"  # codespell:ignore said,told
)
_EMPHATIC = phrases(
    r"very|really|extremely|absolutely|truly|highly|incredibly|completely|totally|especially|deeply|quite|"
    r"entirely|particularly|fully|greatly|always|never|most"
)
_OPENING = re.compile(
    r"^\W*(?:sure|certainly|of course|absolutely|great|thank|thanks|hello|hi\b|here (?:is|are)|here['’]s|okay|ok\b|"
    r"yes[,!]|i['’]d be|i would be|i['’]m (?:happy|glad)|to answer|that['’]s a|what a|let['’]s|"
    r"below (?:is|are)|the following)",
    re.IGNORECASE,
)
_CONTRACTIONS = r"(?i)\b(?:\w+n['’]t|(?:i|you|we|they|he|she|it|that|there|here|what|who|let)['’](?:s|m|re|ve|ll|d))\b"
_SOURCES = (
    r"(?i)https?://|www\.|\b(?:according to|stud(?:y|ies)|research(?:ers)?|journal|published|authors?|et al|survey|"
    r"report(?:ed|s)?|sources?|references?|universit(?:y|ies)|institute|expert(?:s)?|book)\b|\((?:19|20)\d\d\)"
)


def _paragraph_length(text: str) -> float:
    """Log of the mean number of words in a paragraph; a blank line ends one. Below 30 words: not a number."""
    lengths = [len(found) for part in re.split(r"\n\s*\n", CODE.sub("\n", text)) if (found := words(part))]
    return math.log(sum(lengths) / len(lengths)) if sum(lengths) >= 30 else math.nan


TRAITS = (
    *FIRST.values(),
    Trait("Addressing the reader", rate(_SECOND_PERSON), 2.5),  # 2.5 words more in 100
    Trait("Contractions", rate(_CONTRACTIONS), 1.0),  # 1 more in 100 words
    Trait("Positive words", rate(_POSITIVE), 2.0),  # 2 words more in 100
    Trait("Openings", lambda text: float(bool(_OPENING.search(text[:80]))), 1.0),  # one has an opening phrase
    Trait("Closings", lambda text: float(bool(re.search(_CLOSING, text.rstrip()[-160:]))), 1.0),  # one has a closing
    Trait("Summaries", number(_SUMMARY), math.log(2)),  # 1 to 0, 3 to 1
    Trait("Sources", number(_SOURCES), math.log(3)),  # 2 to 0, 8 to 2
    Trait("Paragraph length", _paragraph_length, math.log(2)),  # twice as many words a paragraph
    Trait("Asides", number(r"\([^()\n]*[^\W\d_]{2}[^()\n]*\)"), math.log(2.5)),  # 2 to 0 and more
    Trait("Reasons", rate(_REASONS), 1.0),  # 1 more in 100 words
    Trait("Order words", rate(_ORDER), 1.0),  # 1 more in 100 words
    Trait("Advice", rate(_ADVICE), 1.5),  # 1.5 more in 100 words
    Trait("Names", rate(r"(?<=[a-z,;:)] )(?!I\b)[A-Z][a-z]{2,}"), 2.5),  # 2.5 names more in 100 words
    Trait("Past tense", rate(_PAST), 3.0),  # 3 verbs more in 100 words
    Trait("Emphatic words", rate(_EMPHATIC), 1.2),  # 1.2 more in 100 words
    Trait("Togetherness", rate(_TOGETHER), 1.5),  # 1.5 words more in 100
)
"""All that ``data.name=tastes`` is made of, with the threshold in words."""


@dataclass(frozen=True, slots=True)
class Wording:
    """Sentences for one side of a trait: more of it, or less."""

    training: tuple[str, ...]
    unseen: tuple[str, ...]
    framed: tuple[str, ...]
    """Noun phrases in frames; for training too."""

    def draw(self, rng: random.Random, *, unseen: bool = False) -> str:
        """A sentence; for training as often a written one as a framed one."""
        if unseen:
            return rng.choice(self.unseen)
        return rng.choice(self.training if rng.random() < 0.5 else self.framed)

    def sample(self, rng: random.Random, count: int) -> list[str]:
        """Distinct sentences for training, as many written ones as framed ones, and all where there are not so many."""
        written = rng.sample(self.training, min(-(-count // 2), len(self.training)))
        return written + rng.sample(self.framed, min(count - len(written), len(self.framed)))


def wording(trait: str, sign: int) -> Wording:
    """Sentences that ask for more (``sign`` 1) or less (-1) of a trait; ``KeyError`` for a trait without wordings."""
    return _all()[trait][0 if sign > 0 else 1]


@cache
def _all() -> dict[str, tuple[Wording, Wording]]:
    read: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("wordings.yaml").read_text(encoding="utf-8"))
    unseen = {
        text.casefold() for entry in read["traits"].values() for side in entry.values() for text in side["unseen"]
    }
    sides: dict[str, tuple[Wording, Wording]] = {}
    for place, (trait, entry) in enumerate(read["traits"].items()):
        more, less = entry["more"], entry["less"]
        rest = (read, unseen, place)
        sides[trait] = (_side(more, less, *rest), _side(less, more, *rest))
    return sides


def _side(
    own: dict[str, list[str]],
    other: dict[str, list[str]],
    read: dict[str, Any],
    unseen: Collection[str],
    place: int,
) -> Wording:
    liked = _framed(read["like"], own["nouns"], place)
    disliked = _framed(read["dislike"], other["nouns"], place)
    framed = tuple(text for text in (*liked, *disliked) if text.casefold() not in unseen)
    return Wording(tuple(own["training"]), tuple(own["unseen"]), framed)


def _framed(frames: Sequence[str], nouns: Sequence[str], place: int) -> list[str]:
    """Each noun phrase in a few frames, in turn, those of the next trait in the next frames: every sentence is read by
    a model once, so there are not too many.
    """
    repeated = [noun for noun in nouns for _ in range(FRAMES)]
    start = place * len(repeated)
    return [frames[(start + turn) % len(frames)].format(noun) for turn, noun in enumerate(repeated)]
