"""Criteria that a person may have, each with its opposite."""

from __future__ import annotations

from collections import Counter
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from crm.schema import short

MOST = 64
SIMULATED = files("crm.picking").joinpath("pool_simulated.yaml")
"""For the simulated bank, whose judges know other words than those of real text."""
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class PoolEntry:
    """Two criteria as a judge reads them, ``like`` and ``opposite``; ``name`` is the label of a chip.

    A weight below 0 is the opposite's.
    """

    name: Text
    like: Text
    opposite: Text


_POOL = TypeAdapter(Annotated[tuple[PoolEntry, ...], Field(min_length=2, max_length=MOST)])


def read_pool(path: Path | Traversable | None = None) -> tuple[PoolEntry, ...]:
    """The entries of a YAML file, or the 12 for people that come with the package.

    Raises ``ValueError`` naming the entry and the field for anything but 2 to `MOST` entries of three texts, names
    different from each other.
    """
    where = path or files("crm.picking").joinpath("pool.yaml")
    try:
        entries = _POOL.validate_python(yaml.safe_load(where.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "".join(f"entry {part + 1}: " if isinstance(part, int) else f"{part}: " for part in first["loc"])
        raise ValueError(f"pool: {where}: {place}{first['msg']}, got {short(first['input'])}") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"pool: {where} cannot be read ({short(reason)}); give a YAML file in UTF-8") from None
    name, count = Counter(entry.name.casefold() for entry in entries).most_common(1)[0]
    if count > 1:
        raise ValueError(f"pool: two entries are named {name!r}; give each a name of its own")
    return entries
