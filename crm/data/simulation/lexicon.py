"""Axes of taste, queries and wordings of the simulated arena, and the responses of its authors, written from them."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter

from crm.schema import folded

_WORDS: dict[str, Any] = yaml.CSafeLoader(
    Path(__file__).with_name("simulation.yaml").read_text(encoding="utf-8")
).get_single_data()
BANK_SHARE = 0.1
"""Share of a topic's queries set aside for banks, so that no bank query is ever a training prompt."""


def generator(*purpose: str | int) -> random.Random:
    """A random generator for (seed, id, purpose): equal arguments give equal draws, on any machine, in any order."""
    return random.Random("|".join(map(str, purpose)))  # noqa: S311 - a simulation, not a secret


@dataclass(frozen=True, slots=True)
class Pole:
    """One end of an axis: a one-word name, and bodies of criteria for training and for the unseen-wordings suite.

    ``markers`` are templates of sentences that show it in a response.
    """

    name: str
    train: tuple[str, ...]
    held_out: tuple[str, ...]
    markers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """A dimension of taste. ``topic`` is the broad topic that its criteria belong to."""

    name: str
    topic: str
    plus: Pole
    minus: Pole
    held_out: bool = False

    def pole(self, sign: int) -> Pole:
        """The pole of a sign, +1 or -1."""
        return self.plus if sign > 0 else self.minus


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic's words: plural subjects, singular nouns, its own query templates, and sentences about its matter."""

    name: str
    subjects: tuple[str, ...]
    nouns: tuple[str, ...]
    how: str
    why: str
    content: tuple[str, ...]
    held_out: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """One question of a user: its text, and the topic, subject and noun it is about."""

    text: str
    topic: str
    subject: str
    noun: str


def _named(group: str) -> list[dict[str, Any]]:
    return [{"name": name, **words} for name, words in _WORDS[group].items()]


AXES: tuple[Axis, ...] = TypeAdapter(tuple[Axis, ...]).validate_python(_named("axes"))
"""Every axis. The first is always expressed in a response (it also shows in the length), the others now and then."""
MARKERS = {(axis.name, sign): axis.pole(sign).markers for axis in AXES for sign in (1, -1)}
"""Templates of sentences that show a pole in a response, by axis and sign."""
CONTENT = tuple(_WORDS["content"])
"""What any answer may say about the matter itself; topics add sentences of their own."""
TOPICS: tuple[Topic, ...] = TypeAdapter(tuple[Topic, ...]).validate_python(_named("topics"))
TOPIC: dict[str, Topic] = {topic.name: topic for topic in TOPICS}
TRAIN_TOPICS = tuple(topic.name for topic in TOPICS if not topic.held_out)
HELD_OUT_TOPICS = tuple(topic.name for topic in TOPICS if topic.held_out)


@cache
def queries(topic: str, purpose: str) -> tuple[Query, ...]:
    """Every query of a topic for a purpose, ``votes`` or ``bank``, in a fixed random order; the two never meet."""
    own = TOPIC[topic]
    templates = [(template, _WORDS["how_tails"]) for template in (*_WORDS["how"], own.how)]
    templates += [(template, _WORDS["why_tails"]) for template in (*_WORDS["why"], own.why)]
    everything = [
        Query(template.format(noun=noun, subject=subject, tail=tail), topic, subject, noun)
        for template, tails in templates
        for tail in tails
        for subject in own.subjects
        for noun in own.nouns
    ]
    generator("queries", topic).shuffle(everything)
    cut = int(len(everything) * BANK_SHARE)
    return tuple(everything[:cut] if purpose == "bank" else everything[cut:])


def _profiles(baseline: str, *others: str) -> dict[str, dict[str, float]]:
    steps = [2 * rank / (len(others) - 1) - 1 for rank in range(len(others))]
    profiles: dict[str, dict[str, float]] = {baseline: {axis.name: 0.0 for axis in AXES}}
    profiles |= {author: {} for author in others}
    for axis in AXES:
        order = list(others)
        generator("profile", axis.name).shuffle(order)
        for author, tendency in zip(order, steps, strict=True):
            profiles[author][axis.name] = tendency
    return profiles


PROFILES: Mapping[str, Mapping[str, float]] = _profiles(*_WORDS["authors"])
"""Tendency in [-1, 1] of every author on every axis, the same for every seed: evenly spaced numbers in an order of the
axis's own, so that each axis ranks the authors differently; the baseline is in the middle of all axes."""
BASELINE = str(_WORDS["authors"][0])
AUTHORS = tuple(sorted(PROFILES))


VERBS = ("Prefers", "Wants", "Likes", "Values", "Enjoys", "Favors")

AXIS: dict[str, Axis] = {axis.name: axis for axis in AXES}
TRAIN_AXES = tuple(axis.name for axis in AXES if not axis.held_out)
HELD_OUT_AXES = tuple(axis.name for axis in AXES if axis.held_out)
WORDINGS = ("train", "held_out")
"""Kinds of wordings: those that a model may train on, and those of the unseen-wordings suite."""


def wordings(axis: str, sign: int, kind: str) -> tuple[str, ...]:
    """All wordings of one pole of a kind in `WORDINGS`; the short "Prefers <name>" is a training wording."""
    pole = AXIS[axis].pole(sign)
    bodies = pole.train if kind == "train" else pole.held_out
    full = tuple(f"{verb} {body}" for body in bodies for verb in VERBS)
    return (f"Prefers {pole.name}", *full) if kind == "train" else full


def draw_wording(rng: random.Random, axis: str, sign: int, kind: str) -> str:
    """One wording: bodies are equally likely, and so are verbs; the short form counts as a body."""
    pole = AXIS[axis].pole(sign)
    bodies = (pole.name, *pole.train) if kind == "train" else pole.held_out
    body = rng.choice(bodies)
    return f"Prefers {body}" if body == pole.name else f"{rng.choice(VERBS)} {body}"


_POLES: dict[str, tuple[str, int]] = {
    folded(wording): (axis.name, sign)
    for axis in AXES
    for sign in (1, -1)
    for kind in WORDINGS
    for wording in wordings(axis.name, sign, kind)
}


def pole_of(text: str) -> tuple[str, int] | None:
    """The (axis, sign) that an exact wording stands for, whatever its case; ``None`` for any other text."""
    return _POLES.get(folded(text).rstrip("."))


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
