"""A public set's files, fetched from its owners and checked by digest: ``prepare.py fetch=<set>``."""

from __future__ import annotations

import gzip
import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urljoin

import httpx
import yaml
from rich.progress import track

from crm.data.catalogue import PUBLIC, source_named
from crm.data.public import banks
from crm.io.files import replace_file

log = logging.getLogger(__name__)
FETCHED = (*banks.FOLDERS, *PUBLIC)
"""Public banks and sets of this project; installed packages add theirs (`Source.files`)."""
UNLICENSED = "its source states none: for measuring, not for redistribution"


@dataclass(frozen=True)
class Published:
    """An entry of a ``files.yaml``."""

    licence: str = ""
    """As its source states it; empty where it states none."""
    by_hand: str = ""
    """Why no command can fetch the set, and what to do instead."""
    source: str = ""
    """What addresses begin with: a repository at one commit."""
    files: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """``url`` and ``sha256`` by the name below ``out``."""


def published(name: str) -> Published:
    """What is known of a set's files. Raises ``ValueError`` for a set of a package that lists none."""
    listed = Path(banks.__file__).with_name("files.yaml") if name in FETCHED else source_named(name).files
    if listed is None:
        raise ValueError(f"fetch={name}: its package lists no files; get them as it says")
    return Published(**yaml.safe_load(listed.read_text(encoding="utf-8"))[name])


def fetch(name: str, out: Path, *, mirror: str | None = None, progress: bool = True) -> None:
    """Have the files of a set under ``out``; those that are there are not fetched again.

    ``mirror`` is a folder or an address that has the files under their names below ``out``. Raises ``ValueError`` for a
    set that cannot be fetched, and for a file that is not there or has another digest.
    """
    found = published(name)
    if found.by_hand:
        raise ValueError(f"fetch={name}: {found.by_hand}")
    licence, count, fetched = found.licence or UNLICENSED, len(found.files), 0
    log.info("%s: %d files of %s; licence: %s", name, count, found.source, licence)
    for place, pin in track(found.files.items(), "Fetching", total=count, disable=not progress):
        path = out / place
        if path.is_file() and _sha256(_unpacked(path.read_bytes())) == pin["sha256"]:
            continue
        address = f"{mirror.rstrip('/')}/{place}" if mirror else urljoin(f"{found.source}/", pin["url"])
        content = _unpacked(_read(address))
        if (got := _sha256(content)) != pin["sha256"]:
            raise ValueError(
                f"fetch: {place}: has SHA-256 {got:.12}..., expected {pin['sha256']:.12}...; it was changed or cut: "
                "run the same command again, or name another mirror"
            )
        replace_file(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
        fetched += 1
    log.info("%s: %d files fetched, %d were there already (%s)", name, fetched, count - fetched, out)


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
            "reached, or name a folder or an address that has the files: mirror=<folder>"
        ) from None
