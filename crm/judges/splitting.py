"""Where a sentence may be taken apart, and what its parts say about one another. English only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from crm.judges.refusals import BAD, COLON, GOOD, QUOTED

Span = tuple[int, int]

_STRONG = re.compile(
    r"\b(?:above all(?: else)?|most of all|most important(?:ly)?|first and foremost|especially|really important|"
    r"absolutely must|crucial(?:ly)?|(?:is|are) essential|top priority|more than anything|matters? (?:the )?most)\b",
    re.IGNORECASE,
)
_WEAK = re.compile(
    r"\b(?:a (?:little )?bit|a little|slightly|somewhat|ideally|if possible|would be nice|wouldn['’]t hurt|"
    r"(?:is|are) (?:welcome|fine|ok(?:ay)?)(?!.*\b(?:but|prefer|better|rather)\b)|"
    r"now and then|not that important|a touch|preferably|at most a)\b",
    re.IGNORECASE,
)
_HARD = re.compile(r"(?<=\w\w[.!?;])\s+|\n+|;\s+|\s*\|\s*|\s+[–—-]\s+")
"""Ends of sentences; "e.g. " and "1. " are none."""
_NUMBERED = re.compile(r"(?:^|\s+)\d\d?[.)]\s+")
_EXCEPT = re.compile(
    r"(?<!thing)(?<!\ball),?\s+\(?(?:unless|except|otherwise (?:none|nothing|no|not)|or (?:one|two|a few) at|"
    r"or i(?! (?:want|like|need|prefer|love)))\b.*$",
    re.IGNORECASE | re.DOTALL,
)
_WHERE = re.compile(
    r",?\s+(?:(?:where|when)(?:ever)? (?:possible|you can|it makes sense|it helps|useful|helpful)|"
    r"(?:where(?:ver)?|when(?:ever)?|if) (?:it is |it['’]s )?(?:appropriate|relevant|applicable|needed|necessary))\W*$",
    re.IGNORECASE,
)
"""An end that asks for nothing, but after "only"."""
_TAIL = (
    r"(?:(?:please|pls|thanks|thank you|thx)(?: (?:in advance|so much|a lot))?|"
    r"if you (?:would|could|can|will|please|don['’]?t mind)(?: be so kind)?|(?:but |so )?why(?: though)?)\W*"
)
"""Ends that ask for nothing."""
_FELT = re.compile(
    rf"(?:(?:so|it was|that was|was|it['’]s|that['’]s|just|what|absolutely|really|simply|truly) )*(?:{BAD}|{GOOD})|"
    r"(?:and )?i (?:really )?(?:hated|loved|miss|missed) (?:it|that|this|them)|"
    r"(?:it|that) (?:drove|drives) me (?:mad|crazy|nuts|up the wall)|(?:it|that) (?:wore|wears) me out|ugh|yuck",
    re.IGNORECASE,
)
"""What is felt about the sentence before."""
FEW = 3
"""Words of a sentence that is turned round by what is felt about it; a longer one is read with it."""
_WORDS = "and|but|or|nor|with|yet|plus|though"
_SOFT = re.compile(
    rf"\s*,(?!\s*{_TAIL}$)\s*(?:(?:{_WORDS})\s+)?|(?<!\bnot)\s+(?!or (?:two|three|so)\b)(?:{_WORDS})\s+|"
    r"\s+(?:instead of|rather than|as opposed to)\s+|"
    r"\s+(?=(?:ideally|preferably|especially|above all|most of all|most importantly)\s)",
    re.IGNORECASE,
)
_WITHOUT = re.compile(
    r"(?!.*(?:\b(?:no|not|never|nothing)\b|n't).*without)(?!(?:answers?|repl(?:y|ies)|responses?|texts?) without)"
    r"(?:\S+\s+){0,2}\S+(?<!\bbut|\band)(\s+)"
    r"without(?! (?:losing|leaving|dropping|skipping|missing|cutting))(?:\s+\S+){1,6}$",
    re.IGNORECASE,
)
"""A joint in short lines alone: "short answers without lists"."""
_AND_NOT = re.compile(
    r"(?!.*\b(?:do|does|did|is|are|was|were|should|must|can|could|would|will|please|why|or|and|but|if|it|i|rather|"
    r"better)\s+not\b)(?:\w+\s+){0,3}\w+(\s+)not(?!\s+(?:too|so|very|only|just|that|even|yet)\b)(?:\s+\w+){1,2}\W*$",
    re.IGNORECASE,
)
"""A joint in short lines alone: "examples not theory"."""
_RATHER = re.compile(
    r"(?:.*\bprefer\s.+?(\s+over\s+|\s+to\s+(?!(?:be|have|see|get|read|use|keep|avoid|stay|hear|start|end|give|know)\b))|"
    r".*\brather\s(?!than|too).+?(\s+than\s+)|"
    r"(?:\S+\s+){0,2}(?!(?:go|me|us|it|look|run|gloss|skip|all|nothing)\s)\S+(\s+over\s+|\s*>\s*))(?:\S+\s+){0,2}\S+$",
    re.IGNORECASE,
)
"""A joint in short lines alone: "code over tables", "I prefer jokes to facts", "I'd rather have lists than tables"."""
_OWN = re.compile(
    rf"(?:no|not|without|never|more|less|fewer|too|just|only)\b|{_STRONG.pattern}|{_WEAK.pattern}|so\s+(?:much|many)\b",
    re.IGNORECASE,
)
_REJECTED = re.compile(
    r"(?:(?:hell|oh|absolutely|definitely|please) )?(?:no(?: thanks?| thank you| way)?|nope|never)|"
    r"nah(?:,? i['’]?m good)?|"
    r"(?:rather |please )?not(?: me| for me| any ?more| my thing| so much| really| please)?|"
    r"(?:but )?i (?:don'?t|do not|hate (?:it|them|that)|can'?t stand (?:it|them|that))|"
    rf"(?:(?:so|it['’]s|that['’]s|just|what|absolutely|they['’]re) )*(?:{BAD})|ugh|yuck",
    re.IGNORECASE,
)
_INDIFFERENT = re.compile(r"\b(?:don['’]?t|do not|doesn['’]?t) care (?:about|if|whether|how|what)\b", re.IGNORECASE)


_SIGNS = {r"(?<!\S)\+\s*(?=[a-z])": "more ", r"(?<!\S)[-–−]\s*(?=[a-z])": "no "}
_SHORT = {
    r"\bw/o\b": "without",
    r"\bw/\s*(?=\w)": "with ",
    r"\s[&+]\s": " and ",
    r"\bnot (?:only|just) (?=.* but )": "",
    r"\bnever too\b": "not too",
    r"^(?:it |they )?(?:had |gave me |came with )?(?:no|zero|not one|not a single) "
    r"(?=(?:[\w'’]+ ){0,2}[\w'’]+,? (?:so|and) i (?:could ?n[o'’]?t|had to|got lost|was lost|gave up)\b)": "more ",
    r"^(?:ugh|yuck|argh)[,!]? (?!so |too )(?=\S+(?: \S+)?$)": "no ",
}
_NEXT = re.compile(
    r"(?<![\s,])(?<!\bno)(?<!\bor)(?<!\bis)(?<!\band)(?<!\bmuch)(?<!\bany)\s+(?=(?:no|more|less|fewer|just|only)\s)",
    re.IGNORECASE,
)
"""Joints of a line that begins with one of these: "no warnings no advice", "less words more numbers"."""


def spelled_out(text: str) -> str:
    """Signs and what is short for words as words: "+ examples, - emoji" is "more examples, no emoji"."""
    signs = _SIGNS if re.search(r"(?<!\S)\+[a-z]|^\s*(?:\+|[-–−].*(?<!\S)\+)", text, re.IGNORECASE | re.DOTALL) else {}
    for short, word in (signs | _SHORT).items():
        text = re.sub(short, word, text, flags=re.IGNORECASE)
    return text


def sentences(text: str) -> Iterator[Span]:
    """Parts at the ends of sentences and of items of a numbered list, without exceptions ("unless ...") and thanks.

    What is felt about a sentence, and what was wrong, stay with it.
    """
    reported = {match.start(1) for match in COLON.finditer(text)}
    edges = [(0, 0), *_joints(_HARD, text), (len(text), len(text))]
    hard = [
        joint
        for (_, start), joint, (end, _) in zip(edges, edges[1:], edges[2:], strict=False)
        if joint[0] not in reported and not _is_felt(text[start : joint[0]], text[joint[1] : end])
    ]
    if len(numbers := _joints(_NUMBERED, text)) > 1 and not text[: numbers[0][0]].strip():
        hard = sorted([*hard, *numbers])
    edges = [(0, 0), *hard, (len(text), len(text))]
    parts = [(before, after) for (_, before), (after, _) in pairwise(edges) if text[before:after].strip()]
    for place, (start, end) in enumerate(parts):
        part = text[start:end]
        if not (place and re.fullmatch(_TAIL, part.strip(), re.IGNORECASE)):
            part = _EXCEPT.sub("", part)
            part = part if re.search(r"\b(?:only|just)\b", part, re.IGNORECASE) else _WHERE.sub("", part)
            yield start, start + len(part)


def joints(part: str) -> list[Span]:
    """Where a sentence may be split, outside of quotations: commas, conjunctions, contrasts, words that weigh."""
    found = filter(None, (pattern.match(part) for pattern in (_WITHOUT, _AND_NOT, _RATHER)))
    short = [match.span(match.lastindex or 0) for match in found][:1]
    listed = _joints(_NEXT, part) if re.match(r"(?:no|more|less|fewer)\b", part, re.IGNORECASE) else []
    reported = (match.span(1) for match in COLON.finditer(part))
    return sorted({*_joints(_SOFT, part), *short, *listed, *reported})


def _is_felt(before: str, after: str) -> bool:
    """Whether what stands after a sentence of some length only says what is felt about it."""
    return len(before.split()) > FEW and _FELT.fullmatch(after.strip(" .!?,")) is not None


def is_contrast(joint: str) -> bool:
    """Whether what follows is only what is not meant: "code instead of prose"."""
    return joint.split()[-1:] in (["of"], ["than"], ["to"], ["over"], [">"])


def without_article(text: str) -> str:
    """The text without "the" and the like before it."""
    return re.sub(r"^(?:the|any|all|those|these|from)\s+", "", text, flags=re.IGNORECASE)


def wordings_of_wrong(text: str) -> tuple[str, ...]:
    """How somebody may ask for the opposite of what was wrong: "sources" for "no sources", "too long" for "long"."""
    bare = re.sub(r"^(?:no|not|never|without)\s+", "", text, flags=re.IGNORECASE)
    return (bare,) if bare != text else (f"too {text}", f"no {text}")


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


def _joints(pattern: re.Pattern[str], text: str) -> list[Span]:
    quoted = [match.span() for match in QUOTED.finditer(text)]
    spans = (match.span() for match in pattern.finditer(text))
    return [span for span in spans if not any(start < span[0] < end for start, end in quoted)]
