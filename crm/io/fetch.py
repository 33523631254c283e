"""A public set's files, brought from its owners: ``fetch=<set>``."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path

from omegaconf import MISSING

from crm.config import Settings
from crm.io.hub import fetch_pinned

log = logging.getLogger(__name__)
UNLICENSED = "its source states none: for measuring, not for redistribution"


@dataclass
class PinConfig:
    """Where a published file is, and what it holds."""

    url: str = MISSING
    sha256: str = MISSING


@dataclass
class FetchConfig(Settings, group="fetch"):
    """A public set's files as their owners publish them: ``fetch=dsp``, an option of ``conf/fetch``."""

    name: str | None = None
    """The set; null fetches nothing."""
    licence: str = ""
    """As its source states it, shown before anything is fetched; empty where it states none."""
    by_hand: str = ""
    """Why no command can fetch the set, and what to do instead."""
    source: str = ""
    """What addresses begin with: a repository at one commit."""
    topics_source: str = ""
    """The same, for topics of the queries."""
    mirror: str | None = None
    """A folder or an address that has the files under their names below ``out``; null takes them from their owners."""
    files: dict[str, PinConfig] = field(default_factory=dict)
    """By the name below ``out``; one that ends in ``.gz`` is compressed here, its digest is of what is inside."""


def fetch(config: FetchConfig, out: Path, progress: bool = True) -> None:
    """Have the files of a set under ``out``; those that are there are not fetched again.

    Raises ``ValueError`` for a set that cannot be fetched, and for a file that cannot be had or is another one.
    """
    if config.by_hand:
        raise ValueError(f"fetch={config.name}: {config.by_hand}")
    licence = config.licence or UNLICENSED
    log.info("%s: %d files of %s; licence: %s", config.name, len(config.files), config.source, licence)
    pins = {name: (pin.url, pin.sha256) for name, pin in config.files.items()}
    fetched = fetch_pinned(pins, out, config.mirror, progress)
    log.info("%s: %d files fetched, %d were there already (%s)", config.name, fetched, len(pins) - fetched, out)
