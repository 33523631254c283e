"""Where the simulation's chance comes from. In: what a draw is for. Out: a generator that depends on nothing else."""

from __future__ import annotations

import random


def generator(*purpose: str | int) -> random.Random:
    """A random generator for (seed, id, purpose): equal arguments give equal draws, on any machine, in any order."""
    return random.Random("|".join(map(str, purpose)))  # noqa: S311 - a simulation, not a secret
