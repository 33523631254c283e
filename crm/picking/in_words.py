"""Criteria that somebody seems to care about, in words, the clearest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from crm.picking.pool import PoolEntry
from crm.picking.posterior import Posterior

SURE = 0.9
"""Probability of a weight's sign from which a criterion is named."""
LEAST = 0.25
"""Log-odds for one standard deviation below which a criterion does not matter."""


@dataclass(frozen=True, slots=True)
class Wish:
    """``text`` as a judge reads it; ``weight``, above 0, and its 95 % limits; ``sure``: probability of the side."""

    text: str
    weight: float
    low: float
    high: float
    sure: float


def wishes(posterior: Posterior, entries: Sequence[PoolEntry]) -> list[Wish]:
    """Those of K ``entries`` that matter, by weight; of an entry with a weight below 0 it is the opposite."""
    found = []
    for entry, mean, deviation in zip(entries, posterior.mean.tolist(), posterior.deviation.tolist(), strict=True):
        sure = float(special.ndtr(abs(mean) / deviation))
        if sure >= SURE and abs(mean) >= LEAST:
            text = entry.like if mean > 0 else entry.opposite
            half = float(special.ndtri(0.975)) * deviation
            found.append(Wish(text, abs(mean), abs(mean) - half, abs(mean) + half, sure))
    return sorted(found, key=lambda wish: -wish.weight)


def nearest_first(posterior: Posterior) -> list[int]:
    """Places of all criteria, the largest weight first."""
    return [int(place) for place in np.argsort(-np.abs(posterior.mean), kind="stable")]
