"""Which run a folder holds, and whether a training may go on or begin there."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from crm.io.files import typed_path
from crm.model.manifest import MANIFEST
from crm.training.config import TrainConfig

log = logging.getLogger(__name__)
BEST, LAST, SUMMARY = Path("checkpoints/best.ckpt"), Path("checkpoints/last.ckpt"), "summary.json"
PROMPTS = "prompts.txt"
"""Keys (`crm.schema.prompt_key`) of all prompts of training and validation."""
IGNORED_ON_RESUME = {
    *("run_dir", "resume", "overwrite", "logger", "data.root", "schedule.name", "schedule.save_every"),
    *("model.gradient_checkpointing", "batching.tokens"),
    *(f"trainer.{name}" for name in ("name", "accelerator", "devices", "nodes")),
    *(f"trainer.{name}" for name in ("threads", "compile", "progress")),
}
"""Settings that may differ when a run goes on: where and how fast the same numbers are computed. The loader compares
what its batches depend on."""


class AnotherRunError(ValueError):
    """The folder belongs to another run: nothing may be written into it, not even that this one failed."""


def check_unfinished(config: TrainConfig) -> None:
    """Raise `AnotherRunError` where ``run_dir`` holds another run or model, unless ``overwrite=true`` or
    ``resume=true``, and where the run would replace the model that it starts from."""
    folder, start = Path(config.run_dir), config.model.path
    finished = (folder / SUMMARY).is_file()
    if config.resume:
        return
    if start and Path(start).resolve().is_relative_to((folder / "model").resolve()):
        why = f"it would replace model.path={start}; name another, such as hydra.run.dir={typed_path(f'{folder}_2')}"
    elif config.overwrite:
        return
    elif (folder / LAST).is_file() and not finished:
        goes_on = f"python train.py resume={typed_path(folder)}"
        why = f"an interrupted run is there; go on with: {goes_on}, or overwrite=true begins anew"
    elif finished or (folder / "model" / MANIFEST).is_file():
        found = "a finished run" if finished else "a model"
        why = f"{found} is there; name another folder, or overwrite=true replaces it"
    else:
        return
    raise AnotherRunError(f"hydra.run.dir={folder}: {why}")


def finished_before(config: TrainConfig) -> bool:
    """Whether ``run_dir`` holds this job of a sweep, finished; ``resume`` is set where it was interrupted.

    Raises `AnotherRunError` where it holds a run with other settings. ``overwrite=true`` trains anew whatever is there.
    """
    folder = Path(config.run_dir)
    finished = (folder / SUMMARY).is_file()
    if config.overwrite or not (finished or (folder / LAST).is_file()):
        check_unfinished(config)
        return False
    settings: Any = OmegaConf.to_container(OmegaConf.structured(config))
    _check_same(folder, {**settings, "trainer": {k: v for k, v in settings["trainer"].items() if v != "auto"}})
    config.resume = not finished
    log.info("%s: %s", folder, "finished before" if finished else "goes on from its last checkpoint")
    return finished


def checkpoint_to_resume(config: TrainConfig, settings: Mapping[str, Any]) -> Path | None:
    """The last checkpoint in ``run_dir`` where ``resume`` is set, else None.

    Raises ``ValueError`` without a checkpoint, and `AnotherRunError` where ``settings`` (nested, plain) are not those
    of the run's ``config.yaml``.
    """
    if not config.resume:
        return None
    last = Path(config.run_dir) / LAST
    if not last.is_file():
        raise ValueError(f"resume=true: no checkpoint {last}; give an interrupted run's folder as resume=<folder>")
    _check_same(Path(config.run_dir), settings)
    return last


def _check_same(folder: Path, settings: Mapping[str, Any]) -> None:
    """Compare with the run in ``folder``; what ``settings`` leave out of its hardware may be anything there."""
    saved: Any = OmegaConf.to_container(OmegaConf.load(folder / "config.yaml"))
    saved["trainer"] = {name: value for name, value in saved["trainer"].items() if name in settings["trainer"]}
    before, now = _flat(saved), _flat(settings)
    differing = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if differing:
        shown = "; ".join(f"{name} was {before.get(name)!r:.60}, now {now.get(name)!r:.60}" for name in differing)
        raise AnotherRunError(
            f"{folder}: a run with other settings is there: {shown}. Give those of its config.yaml (resume={folder} "
            "does), or name another folder"
        )


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in settings.items():
        full = f"{prefix}{name}"
        if full in IGNORED_ON_RESUME:
            continue
        if full == "trainer.strategy":  # fsdp numbers the optimizer's states in another way
            value = "ddp" if value == "auto" else value
        found |= _flat(value, f"{full}.") if isinstance(value, Mapping) and value else {full: value}
    return found
