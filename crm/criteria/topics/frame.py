"""Topics of texts, the same for every method. In: texts, labels, names. Out: a table of `Topic` and `Document`."""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd

OTHER = "Other"
OUTLIERS = "Outliers"
UNTOPICAL = (OTHER, OUTLIERS)
"""Names for what belongs to no topic; no topic may carry one of them."""


@dataclass(frozen=True)
class Topics:
    """One topic a text: text i has topic ``names[labels[i]]``.

    ``keywords`` has a tuple for every name. ``silhouette`` (cosine, in [-1, 1]) is over the texts that belong to a
    topic, None where it has no meaning. ``counts`` says how many texts came in, were distinct, had no word, and were
    left without a topic (``other`` or ``outliers``).
    """

    texts: tuple[str, ...]
    labels: tuple[int, ...]
    names: tuple[str, ...]
    keywords: tuple[tuple[str, ...], ...]
    silhouette: float | None
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.texts) != len(self.labels):
            raise ValueError(f"labels: {len(self.labels)} for {len(self.texts)} texts; give one a text")
        if len(self.names) != len(self.keywords) or len(set(self.names)) < len(self.names):
            raise ValueError(f"names: expected {len(self.keywords)} that differ, got {', '.join(self.names)}")
        if self.labels and not 0 <= min(self.labels) <= max(self.labels) < len(self.names):
            raise ValueError(f"labels: expected 0 to {len(self.names) - 1}, one of them is outside")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Texts of every topic, in the order of ``names``."""
        sizes = [0] * len(self.names)
        for label in self.labels:
            sizes[label] += 1
        return tuple(sizes)

    def frame(self) -> pd.DataFrame:
        """One row a text, in the order they came in; columns ``Topic`` and ``Document``."""
        topic = [self.names[label] for label in self.labels]
        return pd.DataFrame({"Topic": topic, "Document": list(self.texts)}, columns=["Topic", "Document"], dtype=object)
