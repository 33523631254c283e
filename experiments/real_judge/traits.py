"""Traits that can be counted in a response, and how a preference for more or less of one is put into words.

Traits are surface: they know nothing of content or truth, and their word lists are English. Sentences of ``training``
and ``unseen`` (``wordings.yaml``) were written apart, and no sentence is in both. More to train on comes from noun
phrases in frames: to like "bullet points" is the criterion that "dislikes flowing prose" is too.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from crm.criteria.counting import MEASURES
from crm.criteria.traits import TRAITS as FIRST
from crm.criteria.traits import Trait

FRAMES = 3
"""Frames that a noun phrase is put into."""
TRAITS = tuple(FIRST.get(name, Trait(name)) for name in MEASURES)
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
