"""Responses of simulated authors: short texts, and the true levels of taste that they express.

A response says something about the query's matter, and expresses three or four axes of taste in the proportions of
its author's profile. Level +1 or -1 of an axis puts one marker sentence of that pole into the text; the detail axis
also decides the amount of detail. As a response is made of templates, `levels_of` reads its levels back exactly.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from crm.data.simulation.lexicon import AXES, CONTENT, MARKERS, PROFILES, TOPIC, TOPICS, Query, Topic, generator

DETAIL = AXES[0].name
_OTHER_AXES = tuple(axis.name for axis in AXES[1:])
SPREAD = 0.5
"""Standard deviation of the detail shown around an author's tendency."""
THRESHOLD = 0.35
"""A response is detailed above this, concise below minus this."""
MARKERS_SHOWN = {-1: 2, 0: 2, 1: 1}
"""How many further axes a response expresses, by its level of detail."""


@dataclass(frozen=True, slots=True)
class Response:
    """A text and its truth: ``levels`` maps every axis to -1, 0 or +1."""

    text: str
    levels: dict[str, int]


def draw_levels(rng: random.Random, tendencies: Mapping[str, float]) -> dict[str, int]:
    """Levels of one response. An axis is expressed more often, and with a surer sign, the stronger the tendency."""
    levels = {axis.name: 0 for axis in AXES}
    shown = tendencies[DETAIL] + rng.gauss(0.0, SPREAD)
    levels[DETAIL] = int(shown > THRESHOLD) - int(shown < -THRESHOLD)
    count = MARKERS_SHOWN[levels[DETAIL]]
    # Weighted draw without replacement: the largest keys log(u) / weight win (Efraimidis and Spirakis, 2006).
    keys = [(math.log(1.0 - rng.random()) / (0.08 + abs(tendencies[axis])), axis) for axis in _OTHER_AXES]
    for _, axis in sorted(keys, reverse=True)[:count]:
        positive = 1.0 / (1.0 + math.exp(-4.0 * tendencies[axis]))
        levels[axis] = 1 if rng.random() < positive else -1
    return levels


def _fill(rng: random.Random, template: str, topic: Topic, query: Query, own_noun: float) -> str:
    """Fill the slots of a template; with probability ``own_noun`` it speaks of the query's own noun first."""
    nouns = rng.sample(topic.nouns, 3)
    if rng.random() < own_noun:
        nouns = [query.noun, *(noun for noun in nouns if noun != query.noun)]
    return template.format(noun=nouns[0], other=nouns[1], third=nouns[2], subject=query.subject)


def _opening(rng: random.Random, level: int, topic: Topic) -> list[str]:
    """Templates on the matter itself: a brief answer, a sentence, or a sentence and two specifics."""
    if level < 0:
        return [rng.choice(MARKERS[DETAIL, -1])]
    content = [rng.choice(CONTENT + topic.content)]
    return content if level == 0 else content + rng.sample(MARKERS[DETAIL, 1], 2)


def write(seed: int, author: str, query: Query) -> Response:
    """The response of an author to a query, a function of (seed, author, query text) alone."""
    rng = generator(seed, author, query.text, "response")
    levels = draw_levels(rng, PROFILES[author])
    topic = TOPIC[query.topic]
    first, *parts = _opening(rng, levels[DETAIL], topic)
    parts += [rng.choice(MARKERS[axis, level]) for axis in _OTHER_AXES if (level := levels[axis])]
    rng.shuffle(parts)
    # A list needs its own lines, so it closes the text; sorting keeps the random order of the rest.
    parts.sort(key=lambda part: "\n" in part)
    sentences = [_fill(rng, first, topic, query, 1.0), *(_fill(rng, part, topic, query, 0.4) for part in parts)]
    return Response(" ".join(sentences), levels)


def write_short(rng: random.Random, query: Query, axis: str, level: int) -> Response:
    """One sentence that expresses ``level`` of one axis, or at level 0 says something on the matter."""
    topic = TOPIC[query.topic]
    template = rng.choice(MARKERS[axis, level] if level else CONTENT + topic.content)
    levels = {other.name: 0 for other in AXES} | {axis: level}
    return Response(_fill(rng, template, topic, query, 1.0), levels)


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
