"""Models that others trained. In: a folder or hub id. Out: the folder with its files, a word for them, its tokenizer.

Nothing that comes with a model is run: safetensors only, no code of its own.
"""

from __future__ import annotations

import json
from fnmatch import fnmatch
from hashlib import sha256 as sha256_of
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoTokenizer, PreTrainedConfig

from crm.model.backbone import FILES, HINTS, fetch, missing_files
from crm.model.manifest import sha256

UNFIT = ("missing_keys", "mismatched_keys")


def model_folder(path: str, revision: str | None) -> Path:
    """The folder of ``judge.path``: itself, or the hub's files at ``revision``, fetched where they are not cached.

    Raises ``ValueError``, within seconds, where the hub cannot be reached or has no such model.
    """
    return Path(path) if Path(path).is_dir() else fetch(path, revision, "judge")


def model_digest(path: str, folder: Path) -> str:
    """What stands for the model: a hub id with its commit; for a folder, 16 hex digits over all files that are loaded.

    Configuration and tokenizer count as the weights do: they decide the numbers too.
    """
    if not Path(path).is_dir():
        return f"{path}@{folder.name}"
    files = sorted(
        file for file in folder.iterdir() if file.is_file() and any(fnmatch(file.name, form) for form in FILES)
    )
    listed = json.dumps({file.name: sha256(file) for file in files}, sort_keys=True)
    return sha256_of(listed.encode()).hexdigest()[:16]


def read_config_and_tokenizer(path: str, folder: Path) -> tuple[PreTrainedConfig, Any]:
    """Both, without any code of the model's own.

    Raises ``ValueError`` for files that are missing or cannot be read, and for a tokenizer that is not a fast one.
    """
    missing = missing_files(folder)
    if missing:
        raise ValueError(
            f"judge.path={path}: {', '.join(missing[:3])} not there; a model is read from safetensors and config.json"
        )
    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise unloadable(path, error) from None
    if not tokenizer.is_fast:
        raise ValueError(f"judge.path={path}: its tokenizer is not a fast one (tokenizer.json); convert it first")
    return config, tokenizer


def load_weights(kind: Any, path: str, folder: Path) -> tuple[Any, list[str]]:
    """A model of the class ``kind`` with float32 weights, and the names of weights that it has no use for.

    Raises ``ValueError`` for files that cannot be read, and where they lack weights of the architecture or hold them in
    another shape: nothing is ever drawn at random.
    """
    try:
        model, info = kind.from_pretrained(
            folder,
            dtype=torch.float32,
            use_safetensors=True,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # so that they come back by name
            trust_remote_code=False,
        )
    except (OSError, ValueError, SafetensorError) as error:
        raise unloadable(path, error) from None
    # A mismatched key may come with its two shapes.
    unfit = sorted({str(key[0] if isinstance(key, tuple) else key) for name in UNFIT for key in info[name]})
    if unfit:
        raise ValueError(
            f"judge.path={path}: its files have no fitting weights for {', '.join(unfit[:3])}, which would be random; "
            "give a model that was trained as this judge"
        )
    return model, sorted(info["unexpected_keys"])


def unloadable(path: str, error: Exception) -> ValueError:
    """The first line of what a library said, as the error of a setting."""
    reason = str(error).strip().partition("\n")[0]
    return ValueError(f"judge.path={path}: cannot be loaded ({reason}); {HINTS['judge']}")
