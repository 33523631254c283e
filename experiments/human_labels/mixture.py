"""Four sets as one, in which every comparison asks for one aspect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from crm.data.load import mix
from crm.data.own import write_preferences
from crm.data.splits import Splits
from crm.schema import Preference

EMPTY = ("D", "T", "C")
"""Suites of a prepared dataset; the study reads those of the sets themselves."""


def write_mixture(folder: Path, parts: dict[str, Splits]) -> None:
    """Write what trains and validates as a folder of ``prepare.py``."""
    mixed = mix(parts)
    for name, rows in {"train": mixed.train, "validation": mixed.validation, **dict.fromkeys(EMPTY, ())}.items():
        write_preferences(folder / "splits" / f"{name}.parquet", one_aspect_each(rows))


def one_aspect_each(rows: Iterable[Preference]) -> Iterator[Preference]:
    """Each row once for every criterion that a side has; of a pair that flips, one of each side while both have some.

    A score adds up over criteria, so a vote with several says of none of them whether it is met.
    """
    for row in rows:
        for place, (a, b) in enumerate(zip_longest(row.criteria_a, row.criteria_b)):
            yield replace(
                row,
                id=f"{row.id}-{place}",
                winner=row.winner if a and b else "a" if a else "b",
                criteria_a=(a,) if a else (),
                criteria_b=(b,) if b else (),
                criteria_topics_a=(),
                criteria_topics_b=(),
            )
