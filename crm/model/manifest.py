"""The manifest of an exported folder, ``crm.json``: facts of the training, and the sha256 of every file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from crm.io.files import replace_file
from crm.model.heads import PROMPT_ORDERS, PromptOrder, head_named

MANIFEST = "crm.json"
CARD = "README.md"
"""For people: it decides no score and may be edited, so that no digest covers it."""
FORMAT = 2
UNREAD = ("generation_config.json",)
"""What tools put beside a model and no classification model reads."""
LOADED = (".json", ".safetensors", ".bin", ".jinja", ".model", ".txt", ".py")
"""Files that transformers may load unasked, an adapter for one; notes of a user beside the model do no harm."""


def write_manifest(folder: Path, head: str, prompt_order: PromptOrder, facts: dict[str, Any]) -> str:
    """Write ``crm.json`` over the files that are in ``folder`` now; returns their digest (16 hex digits).

    ``facts`` are plain JSON values. The digest is of the files alone: equal weights, tokenizers and templates have
    equal digests, whatever the facts say.
    """
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name not in (MANIFEST, CARD, *UNREAD))
    digests = {path.name: sha256(path) for path in files}
    digest = _digest(digests)[:16]
    ours = {"format": FORMAT, "head": head, "prompt_order": prompt_order, "digest": digest, "files": digests}
    replace_file(folder / MANIFEST, json.dumps({**facts, **ours}, indent=2, ensure_ascii=False))
    return digest


def read_manifest(folder: Path) -> dict[str, Any]:
    """``crm.json`` of a checkpoint.

    Raises ``ValueError`` where the folder is not one of ours, of another format, or its manifest contradicts itself.
    """
    path = folder / MANIFEST
    if not path.is_file():
        raise ValueError(f"checkpoint={folder}: no {MANIFEST} there; give a run folder of train.py")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"checkpoint={folder}: {MANIFEST} is damaged ({error!s:.100}); copy it again") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        found = manifest.get("format") if isinstance(manifest, dict) else manifest
        raise ValueError(
            f"checkpoint={folder}: {MANIFEST} has format {found!r:.40}, this version reads {FORMAT}; train again, or "
            "install the version that wrote it"
        )
    files = manifest.get("files")
    if not isinstance(files, dict) or manifest.get("digest") != _digest(files)[:16]:
        raise ValueError(f"checkpoint={folder}: {MANIFEST} contradicts itself: files or digest were changed")
    _check_head(folder, manifest.get("head"))
    if (found := manifest.get("prompt_order")) not in PROMPT_ORDERS:
        orders = ", ".join(PROMPT_ORDERS)
        raise ValueError(f"checkpoint={folder}: prompt_order={found!r:.40}: expected one of {orders}")
    return manifest


def check_files(folder: Path, manifest: dict[str, Any]) -> None:
    """Raise ``ValueError`` for a file that is missing, differs by as little as one bit, or was added."""
    for name, expected in manifest["files"].items():
        if not (folder / name).is_file() or sha256(folder / name) != expected:
            raise ValueError(f"checkpoint={folder}: {name} is missing or damaged (its sha256 differs); copy it again")
    for path in folder.iterdir():
        if path.suffix in LOADED and path.name not in (MANIFEST, *UNREAD, *manifest["files"]):
            raise ValueError(f"checkpoint={folder}: {path.name} is not in {MANIFEST} and might be loaded; move it away")


def sha256(path: Path) -> str:
    """Hex digest of a file, read in blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_head(folder: Path, head: Any) -> None:
    try:
        head_named(str(head))
    except ValueError as error:
        raise ValueError(f"checkpoint={folder}: its head is not known here: {error}") from None


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
