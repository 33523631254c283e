"""Whether a text is one that the simulation could have written.

The truth finds an author's sentences wherever they stand, so that a text of one sentence and much rubbish would have
it. Here every part has to be a sentence of the simulation, about nouns and subjects that it knows.
"""

from __future__ import annotations

import re
from functools import cache

from crm.data.simulation.lexicon import CONTENT, MARKERS, TOPICS


@cache
def _sentence() -> re.Pattern[str]:
    """One sentence, or a list with its heading, and what separates it from the next."""
    nouns = _one_of({noun for topic in TOPICS for noun in topic.nouns})
    subjects = _one_of({subject for topic in TOPICS for subject in topic.subjects})
    templates = [*CONTENT, *(line for topic in TOPICS for line in topic.content)]
    templates += [template for own in MARKERS.values() for template in own]
    patterns = [
        re.sub(r"\\\{(\w+)\\\}", lambda slot: subjects if slot[1] == "subject" else nouns, re.escape(template))
        for template in sorted(templates, key=len, reverse=True)
    ]
    return re.compile(f"(?:{'|'.join(patterns)})(?: |$)")


def _one_of(words: set[str]) -> str:
    return f"(?:{'|'.join(re.escape(word) for word in sorted(words, key=len, reverse=True))})"


def sentences(text: str) -> list[str] | None:
    """The sentences of a text, or None where some part of it is none of the simulation's."""
    found, at = [], 0
    while at < len(text):
        match = _sentence().match(text, at)
        if match is None:
            return None
        found.append(match[0].strip())
        at = match.end()
    return found or None
