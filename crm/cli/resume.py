"""``resume=<run folder>``: a training goes on with the settings that it wrote down itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from crm.cli.mistakes import hydra_word
from crm.quoting import escaped, hydra_text

SWITCHES = {"true", "false", "yes", "no", "on", "off", "1", "0", "null", ""}
NOT_TAKEN = (
    "run_dir",
    "resume",
    "overwrite",
    *(f"trainer.{name}" for name in ("name", "accelerator", "devices", "nodes")),
)
"""Settings that are not taken over: where the run is, and the hardware, which may be another."""


def rewrite_resume(words: Sequence[str]) -> list[str]:
    """The words with ``resume=<run folder>`` as that folder and every setting of the run in it.

    Words typed beside it come last, so that they win. Raises ``ValueError`` for a folder that holds no run, and
    `FinishedError` for a run that has ended.
    """
    given = [word for word in words if word.startswith("resume=") and _value(word).lower() not in SWITCHES]
    if not given:
        return list(words)
    folder = Path(_value(given[-1])).expanduser()
    if not (folder / "config.yaml").is_file():
        found = "no such folder" if not folder.is_dir() else "it holds no config.yaml of a run"
        raise ValueError(
            f"resume={folder}: {found}; give the folder of a training run, such as outputs/train/<date>/<time>"
        )
    if (folder / "summary.json").is_file():
        raise FinishedError(folder)
    settings = OmegaConf.to_container(OmegaConf.load(folder / "config.yaml"))
    assert isinstance(settings, dict)
    own = [hydra_word("hydra.run.dir", str(folder)), "hydra.output_subdir=null", "resume=true"]
    own += [f"{name}={_written(value)}" for name, value in _leaves(settings) if name not in NOT_TAKEN]
    return [*own, *(word for word in words if not word.startswith("resume="))]


class FinishedError(Exception):
    """The run is over: there is nothing to go on with."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"{folder}: this run has ended; next: python evaluate.py checkpoint={folder}")


def _value(word: str) -> str:
    return word.partition("=")[2].strip("'\"")


def _leaves(node: dict[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and values; ``columns``, ``winners`` and the like are mappings of the user's and stay whole."""
    for key, value in node.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and not prefix:
            yield from _leaves(value, f"{name}.")
        else:
            yield name, value


def _written(value: Any) -> str:
    """A value as Hydra's grammar reads it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return _written([f"{key}={item}" for key, item in value.items()])
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    return hydra_text(escaped(value)) if isinstance(value, str) else repr(value)
