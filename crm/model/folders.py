"""Where a model is: a folder, a run of train.py, or a hub."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from huggingface_hub import snapshot_download, try_to_load_from_cache

from crm.io.files import typed_path
from crm.io.hub import download
from crm.model.manifest import MANIFEST

FILES = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]
"""What is fetched of a hub repository: no pickles, no code."""
HINTS = {
    "model": "model=tiny needs no download, and model.path=<folder> takes a local Hugging Face folder",
    "judge": "judge.path=<folder> takes a local Hugging Face folder",
    "checkpoint": "give a run folder of train.py, or the `model` folder in it",
}
"""What to do instead, by the group of settings that names the model; ``checkpoint`` is a setting, not a group."""


def is_hub_id(path: str) -> bool:
    """Whether a path can be ``owner/name`` on a hub, rather than a folder here."""
    return path.count("/") == 1 and not path.startswith((".", "/", "~", "models/")) and not Path(path).exists()


def check_reachable(path: str, revision: str | None = None, group: str = "model") -> None:
    """Raise ``ValueError`` within seconds where a model is neither here nor on a hub.

    ``group``, one of `HINTS`, is where its ``path`` and ``revision`` are set.
    """
    if Path(path).is_dir():
        if not (Path(path) / "config.json").is_file():
            raise ValueError(f"{group}.path={path}: no config.json in this folder; {HINTS[group]}")
    elif not is_hub_id(path):
        hint = "run `make smollm2` to make it, or " if "smollm2" in path else ""
        raise ValueError(f"{group}.path={path}: no such folder; {hint}{HINTS[group]}")
    elif not isinstance(try_to_load_from_cache(path, "config.json", revision=revision), str):
        _from_hub(path, revision, group, ["config.json"])


def fetch(path: str, revision: str | None, group: str = "model") -> Path:
    """The folder of a hub's model, downloaded where it is not in the cache in full.

    Raises ``ValueError`` within seconds where the hub does not answer, or has no such model or revision.
    """
    try:
        folder = Path(snapshot_download(path, revision=revision, allow_patterns=FILES, local_files_only=True))
    except (OSError, ValueError):
        return _from_hub(path, revision, group)
    return folder if _is_complete(folder) else _from_hub(path, revision, group)


def model_folder(path: str, revision: str | None) -> Path:
    """The folder that ``model.path`` names: itself, or that of a hub's model, fetched."""
    return Path(path) if Path(path).is_dir() else fetch(path, revision)


def _from_hub(path: str, revision: str | None, group: str, files: Sequence[str] = FILES) -> Path:
    setting = "checkpoint" if group == "checkpoint" else f"{group}.path"
    return download(f"{setting}={path}", path, revision, files, HINTS[group])


def _is_complete(folder: Path) -> bool:
    """Whether a download came to its end: settings and weights are there, in all parts that an index names."""
    index = folder / "model.safetensors.index.json"
    weights = json.loads(index.read_text("utf-8"))["weight_map"].values() if index.is_file() else ["model.safetensors"]
    return all((folder / name).is_file() for name in ("config.json", *weights))


def located(given: str | Path) -> Path:
    """A folder of this machine, or that of a hub's model, fetched.

    A hub's model is ``owner/name`` or ``owner/name@revision``, with or without ``hf://``. Raises ``ValueError``, within
    seconds, where the hub cannot be reached or has no such model.
    """
    text = str(given)
    folder = Path(text).expanduser()
    name, _, revision = text.removeprefix("hf://").partition("@")
    if not text.startswith("hf://") and (folder.exists() or folder.parent.is_dir() or not is_hub_id(name)):
        return folder
    return fetch(name, revision or None, "checkpoint")


def model_in(folder: Path) -> Path | None:
    """The folder itself or ``model`` in it, whichever holds a model of `train.py`."""
    return next((place for place in (folder, folder / "model") if (place / MANIFEST).is_file()), None)


def checkpoint_folder(given: str | Path) -> Path:
    """The model folder that ``checkpoint=`` names: itself, ``model`` in a run folder, or a hub's model, fetched.

    Raises ``ValueError`` as `located`, and for a folder without a model, naming what it holds and what to type.
    """
    folder = located(given)
    if (model := model_in(folder)) is None:
        raise ValueError(f"checkpoint={given}: {_what_is_there(folder)}")
    return model


def _what_is_there(folder: Path) -> str:
    """Why there is no model in ``folder``, and what to type instead."""
    if folder.is_dir() and any(folder.glob("checkpoints/*.ckpt")):
        return f"its training has not ended; go on with: python train.py resume={typed_path(folder)}"
    if (folder / "config.json").is_file():
        return (
            f"no {MANIFEST} there: not a model of train.py, or not all of it; other reward models: judge=reward_model "
            f"judge.path={folder}; to train from it: model.path={folder}"
        )
    found = "no model there" if folder.exists() else "no such folder"
    return f"{found}; give a run folder of train.py, the `model` folder in it, or owner/name of a hub"
