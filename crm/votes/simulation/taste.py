"""Criteria of the simulation: from an axis and a sign to a wording, and back.

A wording is a verb and a body ("Prefers" + "detailed answers with plenty of specifics"), or "Prefers" and the name of
a pole ("Prefers detailed").
"""

from __future__ import annotations

import difflib
import random
from collections import Counter

from crm.votes.simulation.lexicon import AXES, Axis

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


def _normal(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".")


_POLES: dict[str, tuple[str, int]] = {
    _normal(wording): (axis.name, sign)
    for axis in AXES
    for sign in (1, -1)
    for kind in WORDINGS
    for wording in wordings(axis.name, sign, kind)
}
_FREQUENCY = Counter(word for wording in _POLES for word in wording.split())


def pole_of(text: str) -> tuple[str, int] | None:
    """The (axis, sign) that an exact wording stands for, whatever its case; ``None`` for any other text."""
    return _POLES.get(_normal(text))


def nearest_wording(text: str) -> str:
    """The known wording that shares the rarest words with ``text``, and of those the one spelled most alike."""
    words = set(_normal(text).split())
    shared = {known: sum(1 / _FREQUENCY[word] for word in known.split() if word in words) for known in _POLES}
    best = [known for known, count in shared.items() if count == max(shared.values())]
    return difflib.get_close_matches(_normal(text), best, n=1, cutoff=0.0)[0].capitalize()
