"""How a wish about a trait is put into words (``wordings.yaml``). In: a trait and a side. Out: sentences of a user.

Sentences of ``training`` and ``unseen`` were written apart, and no sentence is in both: whoever trains on the first can
be asked in the second. More to train on comes from noun phrases in frames: to like "bullet points" is the wish that
"dislikes flowing prose" is too.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

FRAMES = 3
"""Frames that a noun phrase is put into."""
OF_ANNOTATOR = 4
"""The first of the unseen sentences are those of the offline annotator, in use before there were others."""


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
    """How to wish for more (``sign`` 1) or less (-1) of a trait. Raises ``KeyError`` for a trait without wordings."""
    return _all()[trait][0 if sign > 0 else 1]


@cache
def _all() -> dict[str, tuple[Wording, Wording]]:
    read: dict[str, Any] = yaml.safe_load(files("crm.criteria").joinpath("wordings.yaml").read_text(encoding="utf-8"))
    kept_apart = {
        text.casefold() for entry in read["traits"].values() for side in entry.values() for text in side["unseen"]
    }
    sides: dict[str, tuple[Wording, Wording]] = {}
    for place, (trait, entry) in enumerate(read["traits"].items()):
        more, less = entry["more"], entry["less"]
        rest = (read, kept_apart, place)
        sides[trait] = (_side(more, less, *rest), _side(less, more, *rest))
    return sides


def _side(
    own: dict[str, list[str]],
    other: dict[str, list[str]],
    read: dict[str, Any],
    kept_apart: Collection[str],
    place: int,
) -> Wording:
    liked = _framed(read["like"], own["nouns"], place)
    disliked = _framed(read["dislike"], other["nouns"], place)
    framed = tuple(text for text in (*liked, *disliked) if text.casefold() not in kept_apart)
    return Wording(tuple(own["training"]), tuple(own["unseen"]), framed)


def _framed(frames: Sequence[str], nouns: Sequence[str], place: int) -> list[str]:
    """Each noun phrase in a few frames, in turn, those of the next trait in the next frames: every sentence is read by
    a model once, so there are not too many.
    """
    repeated = [noun for noun in nouns for _ in range(FRAMES)]
    start = place * len(repeated)
    return [frames[(start + turn) % len(frames)].format(noun) for turn, noun in enumerate(repeated)]
