"""In: seed, epoch, sample id and what is drawn. Out: a random generator that depends on nothing else."""

from __future__ import annotations

import hashlib
import random


def generator(seed: int, epoch: int, sample_id: str, purpose: str) -> random.Random:
    """A generator of its own for one draw, the same on every machine, worker and call.

    ``purpose`` (a word without ``|``) keeps two draws for one sample independent. The id comes last, so that no id
    can imitate another key; it may hold any text.
    """
    key = f"{seed}|{epoch}|{purpose}|{sample_id}".encode("utf-8", "surrogatepass")
    return random.Random(hashlib.sha256(key).digest())  # noqa: S311 - reproducible draws, no secrets
