"""Checkpoints to resume from. In: Lightning's training state. Out: files that survive a kill, a full disk, a bad bit.

A checkpoint is written beside its target, flushed, digested and moved into place; the one before stays as
``<name>.previous``. Loading checks the digest and falls back to the previous file. Nothing is unpickled.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO

from crm.models.export import sha256

log = logging.getLogger(__name__)


class SafeCheckpointIO(TorchCheckpointIO):
    """Atomic writes with a sha256 sidecar, verified reads."""

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: Any = None
    ) -> None:
        """Write ``path`` so that at every moment it or its previous version is whole."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.tmp")
        with temporary.open("wb") as file:
            torch.save(checkpoint, file)
            file.flush()
            os.fsync(file.fileno())
        digest = sha256(temporary)
        if target.exists():
            target.replace(previous(target))
            if digest_of(target).exists():
                digest_of(target).replace(digest_of(previous(target)))
        digest_of(target).write_text(digest)
        temporary.replace(target)
        _flush_folder(target.parent)

    def load_checkpoint(self, path: str | os.PathLike[str], map_location: Any = None, weights_only: Any = None) -> Any:
        """The checkpoint, or the previous one where this one is damaged. Raises ``ValueError`` when both are."""
        target = Path(path)
        for candidate in (target, previous(target)):
            if is_whole(candidate):
                if candidate != target:
                    log.warning("%s is damaged; going on from %s", target, candidate)
                return torch.load(candidate, map_location=map_location or "cpu", weights_only=True)
        raise ValueError(f"checkpoint {target}: missing or damaged, and so is its previous version; start a new run")

    def remove_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Remove the file, its digest, and its previous version."""
        for candidate in (Path(path), previous(Path(path))):
            candidate.unlink(missing_ok=True)
            digest_of(candidate).unlink(missing_ok=True)


def previous(path: Path) -> Path:
    """Where the version before ``path`` is kept."""
    return path.with_name(f"{path.name}.previous")


def digest_of(path: Path) -> Path:
    """Where the sha256 of ``path`` is kept."""
    return path.with_name(f"{path.name}.sha256")


def is_whole(path: Path) -> bool:
    """Whether the file is there and has the digest it was written with."""
    return path.is_file() and digest_of(path).is_file() and digest_of(path).read_text().strip() == sha256(path)


def _flush_folder(folder: Path) -> None:
    """Make renames in a folder durable, where the platform lets a folder be opened."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
