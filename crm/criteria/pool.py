"""Pools of criteria: YAML lists of what a judge can grade and a person can ask for."""

from __future__ import annotations

from collections import Counter
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from crm.schema import Text, short, validated


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Criterion:
    """``more`` and ``less`` are its two sides in a person's words; ``definition`` says what is graded."""

    name: Text
    more: Text
    less: Text
    definition: Text


def read_criteria(path: Path | None = None) -> tuple[Criterion, ...]:
    """The criteria of a YAML file, or the 66 of the package. Raises ``ValueError`` naming entry and field."""
    return read_entries(
        path or files("crm.criteria").joinpath("pool.yaml"), Annotated[tuple[Criterion, ...], Field(min_length=1)]
    )


def read_entries(path: Path | Traversable, kind: Any) -> tuple[Any, ...]:
    """The entries of a YAML file as a ``kind``, each with a ``name`` of its own.

    Raises ``ValueError`` naming entry and field.
    """
    try:
        given = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"pool: {path} cannot be read ({short(reason)}); give a YAML file in UTF-8") from None
    entries: tuple[Any, ...] = validated(kind, given, f"pool: {path}: entries")
    name, count = Counter(entry.name.casefold() for entry in entries).most_common(1)[0]
    if count > 1:
        raise ValueError(f"pool: two entries are named {name!r}; give each a name of its own")
    return entries
