"""Criteria that a person may have, each with its opposite. In: a YAML file. Out: entries.

An entry is a name and two sentences of a user: one who likes it and one who likes the opposite. A weight below 0 is the
opposite's.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml

from crm.schema import short

MOST = 64
SIMULATED = files("crm.picking").joinpath("pool_simulated.yaml")
"""For the simulated bank, whose judges know other words than those of real text."""
FIELDS = ("name", "like", "opposite")


@dataclass(frozen=True, slots=True)
class PoolEntry:
    """``like`` and ``opposite`` are what a judge is told; ``name`` is what a chip says."""

    name: str
    like: str
    opposite: str


def read_pool(path: Path | Traversable | None = None) -> tuple[PoolEntry, ...]:
    """The entries of a file, or those that come with the package (12, for people).

    Raises ``ValueError`` naming the entry and the field for anything but 2 to `MOST` entries of three texts, names
    different from each other.
    """
    where = path or files("crm.picking").joinpath("pool.yaml")
    try:
        given = yaml.safe_load(where.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"pool: {where} cannot be read ({short(reason)}); give a YAML file in UTF-8") from None
    if not isinstance(given, list) or not 2 <= len(given) <= MOST:
        raise ValueError(f"pool: {where} holds {short(given)}; expected a list of 2 to {MOST} entries")
    entries = tuple(_entry(number, entry) for number, entry in enumerate(given, start=1))
    names = [entry.name.casefold() for entry in entries]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"pool: two entries are named {name!r}; give each a name of its own")
    return entries


def _entry(number: int, given: Any) -> PoolEntry:
    if not isinstance(given, dict) or set(given) != set(FIELDS):
        raise ValueError(f"pool: entry {number} is {short(given)}; expected the fields {', '.join(FIELDS)}")
    for field in FIELDS:
        if not isinstance(given[field], str) or not given[field].strip():
            raise ValueError(f"pool: entry {number}: {field}={short(given[field])}; expected a text")
    return PoolEntry(**{field: given[field].strip() for field in FIELDS})
