"""How far a refusal reaches: "I hate lists and headings" refuses both, "no lists, short answers" one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

BAD = (
    "awful|dreadful|terrible|horrible|horrid|unbearable|useless|annoying|ridiculous|exhausting|tiring|maddening|"
    "tedious|pathetic|disapp?ointing|hopeless|rubbish|the worst|a nightmare|a pain|a mess"
)
_TURNED = "skip|forget|leave|omit|drop|miss|hold|be afraid|be shy|shy|cut|stop|avoid|hesitate|spare|save|only|just|mind"
"""What makes a refusal ask for something: "don't skip", "never forget", "not only"."""
_NEVER = rf"(?:(?:do|does)(?:n'?t| not)|never)(?! (?:{_TURNED})\b)"
_VERBS = re.compile(
    r"(?<!n't )(?<!not )(?<!never )\b(?:hates?|dislikes?|detests?|loathes?|avoid(?:s|ing)?|skip|omit|remove|ban|"
    r"leave out|spare me|(?:cut|drop|lose) (?:out )?(?:the|all|those|these)|fed up with|can(?:'?t|not) (?:stand|bear)|"
    r"refrain(?:ing)? from|steer clear of|stay away from|ditch|scrap|get rid of|do away with|do(?:ing)? without|"
    r"stop (?:using|adding|giving me|with)|enough (?:of|with)|(?:tired|sick) of|"
    r"(?:annoyed|bothered) by|not a fan of|"
    rf"{_NEVER} (?:want|like|need|use|add|include|give me|show(?: me)?|put in|write|enjoy|care for))\b",
    re.IGNORECASE,
)
"""Refusals that reach over commas: "I hate lists, headings and bold"."""
_HOW_BAD = rf"\b(?:was|were|is|are) (?:\w+ )?(?:{BAD})"
COLON = re.compile(rf"{_HOW_BAD}(\s*[-–—:]\s*)", re.IGNORECASE)
"""After this comes what was wrong."""
_REPORT = re.compile(
    rf"{_HOW_BAD}$|"
    r"(?<!\bi )\b(?:had|contained|came with) (?:no|zero|not one)\b",
    re.IGNORECASE,
)
"""Reports that list what was wrong: "my last assistant was awful: long and full of emoji"."""
GOOD = "great|lovely|perfect|brilliant|wonderful|fantastic|bliss|spot on|a relief|a joy|a treat"
_ACCOUNT = re.compile(
    rf"(?!.*\b(?:{GOOD}|love[ds]?|like[ds]?|enjoy(?:ed|s)?|miss(?:ed)?|finally|at last|should|must)\b)"
    r"(?:it (?:was|never|always|keeps?|gave|had|wrote|came|went|spoke|made|took|left|sent|read|\w+(?:ed|old|aid))|"
    r"every (?:\w+ )?(?:was|had|\w+ed)|(?:the|my|its|your) (?:last|old|former|previous|earlier) \w+ \w+)\b",
    re.IGNORECASE,
)
"""Accounts of an answer without praise."""
_NOT = re.compile(r"(?:never|not|no|without|did(?:n'?t| not))\b", re.IGNORECASE)
_ASKS = re.compile(
    r"(?:so |now )?(?:i|please|give|show|be|use|keep|just|instead|it (?:should|ought|must))\b", re.IGNORECASE
)
"""What ends such a list."""
_TOO = re.compile(r"(?:(?:far|way|much|a bit|always|just) )*(?:too|overly|so)\b", re.IGNORECASE)
_WORDS = re.compile(
    rf"\b(?:no(?! (?:need to|one|matter|problem|limit|doubt|less|more))|without|less|fewer|neither|"
    r"nothing (?:too|with)|"
    rf"{_NEVER}|not (?:too|so|overly|that|any)|too (?:much|many))"
    r"(?:\s+\S+){1,4}$",
    re.IGNORECASE,
)
"""Refusals that reach over "and" and "or", and over commas before these alone: "no lists, short answers"."""
_OWN = re.compile(
    r"(?:i|it|you|we|he|she|they|this|that|there|more|less|fewer|no|not|never|without|only|rather|instead|just|please|"
    r"always|use|keep|give|be|get|write|make|show|tell|put|go|start|begin|end|cite|explain|add|include|stick|say|let|"
    r"stay|answer|come|do|don'?t|sound|talk|speak|try|help|name|ask|have|has|is|are|so|too|some|plenty|lots|with|"
    r"(?:give|use|keep|cite|explain|add|include|stick|say|stay|make|show|tell|put|get|write|speak|admit|know|start)s|"
    r"(?:love|like|prefer|want|need|enjoy)s?)\b|"
    r".*\b(?:welcome|fine|okay?|helps?|matters?|are good)\b",
    re.IGNORECASE,
)
"""What asks for something of its own: begins like that, or says that something is welcome."""
QUOTED = re.compile(r"[\"“][^\"“”]*[\"”]|(?<!\w)['‘][^'‘’]+['’](?!\w)")
_ALSO, _OR = ("", "and"), ("or", "nor")
MOST = 3
"""Words of what is refused along with something else."""


def is_own(part: str) -> bool:
    """Whether a part asks for something of its own, which nothing before it reaches."""
    return _OWN.match(part) is not None


def is_list(joint: str) -> bool:
    """Whether what stands on both sides of a joint is a list: not in "short but with examples"."""
    return _word(joint) in (*_ALSO, *_OR)


def is_refusal(part: str) -> bool:
    """Whether a part says that something is not liked: "I hate lists", not "no lists?"."""
    return _VERBS.search(part) is not None and not part.rstrip().endswith("?")


def is_report(part: str) -> bool:
    """Whether a part says how bad an answer was, and what stands after it is why."""
    return _REPORT.search(part) is not None


def is_account(sentence: str) -> bool:
    """Whether a sentence is an account of an answer without praise: what else it says of it was wrong."""
    return _ACCOUNT.match(sentence.strip()) is not None


def _wrongs(parts: Sequence[str], words: Sequence[str], start: int) -> Iterator[int]:
    """Places from ``start`` on of what was wrong; "too long" says so itself."""
    for place in range(start, len(parts)):
        if (words[place] in ("but", "yet") and not _NOT.match(parts[place])) or _ASKS.match(parts[place]):
            return
        if not _TOO.match(parts[place]):
            yield place


def _word(joint: str) -> str:
    return joint.strip(" ,").lower()


def refused_along(
    parts: Sequence[str], joints: Sequence[str], asks_less: Sequence[bool], account: bool = False
) -> set[int]:
    """Places of ``parts`` that fall under a refusal in a part before them, or under the first if that is `is_account`.

    ``joints`` are what stands before each part. One that ``asks_less`` ("short answers") stands for itself, unless
    "or" stands before it.
    """
    words = list(map(_word, joints))
    parts = [QUOTED.sub("it", part) for part in parts]
    listed = [
        is_list(joint) and not is_own(part) and (_word(joint) in _OR or not less)
        for part, joint, less in zip(parts, joints, asks_less, strict=True)
    ]
    brief = [
        len(part.split()) <= MOST + 2 * (word in _OR) or part.startswith("from ")
        for part, word in zip(parts, words, strict=True)
    ]
    found: set[int] = set(_wrongs(parts, words, 1)) if account else set()
    for place, part in enumerate(parts):
        end = place + 1
        while end < len(parts) and listed[end] and brief[end] and not _VERBS.search(parts[end]):
            end += 1
        if is_report(part):
            found.update(_wrongs(parts, words, place + 1))
        elif _VERBS.search(part):
            found.update(range(place + 1, end))
        elif _WORDS.search(part):
            found.update(range(place + 1, 1 + max((at for at in range(place + 1, end) if words[at]), default=place)))
    return found
