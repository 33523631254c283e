"""A public set's files, fetched from its owners and checked by digest: ``fetch=<set>``."""

from __future__ import annotations

import gzip
import hashlib
import logging
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from omegaconf import MISSING
from rich.progress import track

from crm.config import Settings
from crm.io.files import replace_file

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

    Raises ``ValueError`` for a set that cannot be fetched, and for a file that is not there or has another digest.
    """
    if config.by_hand:
        raise ValueError(f"fetch={config.name}: {config.by_hand}")
    licence = config.licence or UNLICENSED
    log.info("%s: %d files of %s; licence: %s", config.name, len(config.files), config.source, licence)
    fetched = 0
    for name, pin in track(config.files.items(), "Fetching", total=len(config.files), disable=not progress):
        place = out / name
        if place.is_file() and _sha256(_unpacked(place.read_bytes())) == pin.sha256:
            continue
        content = _unpacked(_read(f"{config.mirror.rstrip('/')}/{name}" if config.mirror else pin.url))
        if (got := _sha256(content)) != pin.sha256:
            raise ValueError(
                f"fetch: {name}: has SHA-256 {got:.12}..., expected {pin.sha256:.12}...; it was changed or cut: run "
                "the same command again, or name another fetch.mirror"
            )
        replace_file(place, gzip.compress(content, mtime=0) if place.suffix == ".gz" else content)
        fetched += 1
    log.info("%s: %d files fetched, %d were there already (%s)", config.name, fetched, len(config.files) - fetched, out)


def _unpacked(content: bytes) -> bytes:
    return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read(address: str) -> bytes:
    """What a file or an address holds. Raises ``ValueError`` where it cannot be reached."""
    try:
        if "://" not in address:
            return Path(address).read_bytes()
        return httpx.get(address, follow_redirects=True, timeout=60).raise_for_status().content
    except (httpx.HTTPError, OSError) as error:
        raise ValueError(
            f"fetch: {address}: cannot be fetched ({type(error).__name__}); run the same command again when it can be "
            "reached, or name a folder or an address that has the files: fetch.mirror=<folder>"
        ) from None
