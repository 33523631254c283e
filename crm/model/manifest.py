"""``crm.json`` of a model folder: head, digest and how the model was trained."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from crm.io.files import replace_file
from crm.model.heads import head_named

MANIFEST, VERSION = "crm.json", 4
DIGESTED = ("*.safetensors", "tokenizer.json", "chat_template.jinja")
"""Files behind the digest, which is the cache key of predictions and indexes."""


def write_manifest(folder: Path, head: str, facts: dict[str, Any]) -> str:
    """Write ``crm.json`` and return the digest (16 hex digits) of `DIGESTED`; ``facts`` are plain JSON values."""
    digests = {path.name: sha256(path) for form in DIGESTED for path in folder.glob(form)}
    digest = hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()[:16]
    manifest = {**facts, "version": VERSION, "head": head, "digest": digest}
    replace_file(folder / MANIFEST, json.dumps(manifest, indent=2, ensure_ascii=False))
    return digest


def read_manifest(folder: Path) -> dict[str, Any]:
    """``crm.json`` of a model folder. Raises ``ValueError`` where it is missing, broken or of another version."""
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if (version := manifest["version"]) != VERSION:
            raise ValueError(f"version {version!r:.40}, this release reads {VERSION}; export the model again")
        head_named(str(manifest["head"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"checkpoint={folder}: {MANIFEST} cannot be used ({error!s:.200})") from None
    return manifest


def sha256(path: Path) -> str:
    """Hex digest of a file, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
