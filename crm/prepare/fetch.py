"""A public set's files, fetched from its owners and checked by digest: ``prepare.py fetch=<set>``."""

from __future__ import annotations

import gzip
import hashlib
import logging
from pathlib import Path
from typing import Any
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


def published(name: str) -> dict[str, Any]:
    """What is known of a set: ``licence`` where its source states one, and ``files`` (``url``, below ``source``, and
    ``sha256`` by the name below ``out``).

    Raises ``ValueError`` for a set of a package that lists none.
    """
    listed = Path(banks.__file__).with_name("files.yaml") if name in FETCHED else source_named(name).files
    if listed is None:
        raise ValueError(
            f"fetch={name}: the package that adds it lists no files to fetch; its README says how to get them"
        )
    found: dict[str, Any] = yaml.safe_load(listed.read_text(encoding="utf-8"))[name]
    for place, pin in found["files"].items():
        pin.setdefault("url", found.get("url", "").format(name=Path(place).name.partition(".json")[0]))
    return found


def fetch(name: str, out: Path, *, mirror: str | None = None, progress: bool = True) -> None:
    """Have the files of a set under ``out``; those that are there are not fetched again.

    ``mirror`` is a folder or an address that has the files under their names below ``out``. Raises ``ValueError`` for a
    set that cannot be fetched, and for a file that is not there or has another digest.
    """
    found = published(name)
    count, fetched = len(found["files"]), 0
    log.info("%s: %d files of %s; licence: %s", name, count, found["source"], found.get("licence", UNLICENSED))
    for place, pin in track(found["files"].items(), "Fetching", total=count, disable=not progress):
        path = out / place
        if path.is_file() and _unpacked(path.read_bytes())[1] == pin["sha256"]:
            continue
        address = f"{mirror.rstrip('/')}/{place}" if mirror else urljoin(f"{found['source']}/", pin["url"])
        content, got = _unpacked(_read(address))
        if got != pin["sha256"]:
            raise ValueError(
                f"fetch: {place}: has SHA-256 {got:.12}..., expected {pin['sha256']:.12}...; it was changed or cut: "
                "run the same command again, or name another mirror"
            )
        replace_file(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
        fetched += 1
    log.info("%s: %d files fetched, %d were there already (%s)", name, fetched, count - fetched, out)


def _unpacked(content: bytes) -> tuple[bytes, str]:
    """What is inside, and its SHA-256."""
    inside = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    return inside, hashlib.sha256(inside).hexdigest()


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
