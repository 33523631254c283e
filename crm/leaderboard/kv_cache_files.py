"""LayerCaches keys and values in files. In: what a pass over texts left behind. Out: the same, memory-mapped, or None.

One file holds the texts of one pass; its name is the digest of all that its content depends on. A file that is damaged
is left aside with a warning and made anew; any file may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from crm.io.files import drafted
from crm.model.attention.kv_cache import KVCache

NAMES = ("keys", "values", "lengths")
FORMAT = "1"
"""Stands before the digest in a file's metadata; files of earlier versions have none and are alike."""


def read_cache(path: Path, shape: tuple[int, ...], dtype: torch.dtype) -> KVCache | None:
    """What `write_cache` wrote, if keys and values are of this shape and dtype and every byte is as it was."""
    if not path.exists():
        return None
    try:
        with safe_open(path, "pt") as file:
            cache = KVCache(*(file.get_tensor(name) for name in NAMES))
            found = (file.metadata() or {}).get("content", "")
        if any((part.shape, part.dtype) != (shape, dtype) for part in (cache.keys, cache.values)):
            raise ValueError(f"it holds {tuple(cache.keys.shape)}, {cache.keys.dtype}")
        if found.removeprefix(f"{FORMAT}-") != content(cache, path.stem):
            raise ValueError("its content is not what was written")
    except (SafetensorError, OSError, ValueError) as error:
        warnings.warn(f"{path}: not used and made anew ({error})", stacklevel=2)
        return None
    with suppress(FileNotFoundError):  # another process may have made room just now; what is mapped stays
        os.utime(path)  # used now: `make_room` deletes the longest unused first
    return cache


def write_cache(path: Path, cache: KVCache) -> None:
    """Write tensors and their digest in one step: a reader never meets half a file. Raises ``OSError``."""
    tensors = {name: getattr(cache, name).cpu().contiguous() for name in NAMES}
    try:
        with drafted(path) as draft:
            save_file(tensors, draft, metadata={"content": f"{FORMAT}-{content(cache, path.stem)}"})
    except SafetensorError as error:  # a full disk, for one
        raise OSError(str(error)) from None


def make_room(folder: Path, needed: Collection[Path], size: int, budget: int) -> None:
    """Delete files of states other than ``needed``, the longest unused first, until with ``size`` bytes they fit."""
    ages = []
    for path in folder.glob("states-*.safetensors"):
        with suppress(FileNotFoundError):  # another process may make room at the same time
            if path not in needed:
                found = path.stat()
                ages.append((found.st_mtime, path, found.st_size))
    ages.sort()
    total = sum(taken for *_, taken in ages) + size
    for _, path, taken in ages:
        if total <= budget:
            break
        path.unlink(missing_ok=True)
        total -= taken


def content(cache: KVCache, name: str) -> str:
    """Digest of every byte, and of the name, so that a file in the place of another is found out."""
    digest = hashlib.sha256(name.encode())
    for name in NAMES:
        digest.update(getattr(cache, name).cpu().contiguous().view(torch.uint8).numpy())
    return digest.hexdigest()
