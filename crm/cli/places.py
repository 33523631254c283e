"""A disk that refuses, in words. In: the system's error and a command's settings. Out: the setting that leads there."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

RUN = ("hydra.run.dir", "outputs")
WRITTEN = ("hydra.run.dir", "predictions", "out")
"""Settings that commands write below."""


def places_of(composed: DictConfig) -> dict[str, str]:
    """The settings that hold a text, by name; a run's folder by the name under which users set it.

    None where they cannot be resolved, which is the mistake that is told then.
    """
    try:
        values = OmegaConf.to_container(composed, resolve=True, throw_on_missing=False)
    except OmegaConfBaseException:
        return {}
    texts = dict(_texts(values, ""))
    return {"hydra.run.dir" if name == "run_dir" else name: text for name, text in texts.items()}


def _texts(node: Any, prefix: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _texts(value, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(node, str) and node:
        yield prefix, node


def refused_place(error: OSError, places: Mapping[str, str]) -> str:
    """Which folder or file it is about and the setting that named it, as far as either is known."""
    reason = error.strerror or str(error) or type(error).__name__
    if not isinstance(error.filename, str):
        there = ", ".join(f"{name}={places[name]}" for name in WRITTEN if name in places)
        return f"{there}: {reason}; make room there or name another folder" if there else reason
    path = Path(error.filename)
    above = [name for name, value in places.items() if _is_below(path, Path(value)) or _is_below(Path(value), path)]
    if not above:
        return f"{path}: {reason}"
    name = max(above, key=lambda name: len(places[name]))
    inside = "" if Path(places[name]) == path else f" ({path})"
    return f"{name}={places[name]}: {reason}{inside}; name another"


def folder_of_run(words: Sequence[str]) -> dict[str, str]:
    """Where Hydra itself writes before a command begins, by the words of its line: a run's folder, or a sweep's."""
    name, default = ("hydra.sweep.dir", "multirun") if {"-m", "--multirun"} & set(words) else RUN
    given = [word.partition("=")[2].strip("'\"") for word in words if word.startswith(f"{name}=")]
    return {name: given[-1] if given else default}


def _is_below(path: Path, folder: Path) -> bool:
    inside = os.path.relpath(path, folder)
    return inside != ".." and not inside.startswith(f"..{os.sep}")
