"""The levels of taste in a response of the simulation, read off its sentences.

A response is made of templates, so that reading it back is exact; nothing else about it (author, seed) is needed.
"""

from __future__ import annotations

import re
from functools import lru_cache

from crm.votes.simulation.lexicon import AXES, CONTENT, MARKERS, TOPICS


def _pattern(template: str) -> re.Pattern[str]:
    """A template with any words of one line in its slots."""
    return re.compile(re.sub(r"\\\{[a-z]+\\\}", r"[^\\n.:]+?", re.escape(template)))


_MARKERS = [(axis, sign, _pattern(template)) for (axis, sign), templates in MARKERS.items() for template in templates]
_CONTENT = [_pattern(template) for template in (*CONTENT, *(line for topic in TOPICS for line in topic.content))]


@lru_cache(maxsize=100_000)
def levels_of(text: str) -> tuple[tuple[str, int], ...] | None:
    """(axis, level) of every axis, level -1, 0 or +1; ``None`` for a text that the simulation did not write."""
    levels = dict.fromkeys((axis.name for axis in AXES), 0)
    found = {(axis, sign) for axis, sign, pattern in _MARKERS if pattern.search(text)}
    if not found and not any(pattern.search(text) for pattern in _CONTENT):
        return None
    for axis, sign in found:
        levels[axis] += sign
    return tuple(levels.items())
