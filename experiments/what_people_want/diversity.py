"""Diversity of texts' topics, as entropy and as an effective number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats


@dataclass(frozen=True, slots=True)
class Diversity:
    """``entropy`` of the topics in bits; ``evenness`` is its share of the most there could be, in [0, 1].

    ``effective`` topics, 2 to the entropy, is how many equally frequent ones would be as diverse (Hill 1973, order 1).
    ``largest`` is the share of the most frequent topic.
    """

    texts: int
    topics: int
    entropy: float
    evenness: float
    effective: float
    largest: float


def diversity(topics: Sequence[str]) -> Diversity:
    """Diversity of texts whose topics are given, one each. Raises ``ValueError`` for none."""
    if not topics:
        raise ValueError("topics: none given; diversity needs at least one text")
    counts = Counter(topics)
    entropy = float(stats.entropy(list(counts.values()), base=2))
    most = float(stats.entropy([1] * len(counts), base=2))
    return Diversity(
        texts=len(topics),
        topics=len(counts),
        entropy=entropy,
        evenness=entropy / most if most else 1.0,
        effective=2.0**entropy,
        largest=max(counts.values()) / len(topics),
    )
