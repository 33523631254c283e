"""Which run a folder holds, and whether a training may go on or begin there."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from omegaconf import OmegaConf

from crm.training.config import TrainConfig

log = logging.getLogger(__name__)
BEST, LAST, SUMMARY = Path("checkpoints/best.ckpt"), Path("checkpoints/last.ckpt"), "summary.json"
IGNORED_ON_RESUME = {
    *("run_dir", "resume", "overwrite", "logger", "data.root", "schedule.name", "schedule.save_every"),
    *("model.gradient_checkpointing", "batching.tokens"),
    *(f"trainer.{name}" for name in ("name", "accelerator", "devices", "nodes", "strategy")),
    *(f"trainer.{name}" for name in ("threads", "compile", "progress")),
}
"""Settings that may differ when a run goes on: where and how fast the same numbers are computed. The loader compares
what its batches depend on."""


class AnotherRunError(ValueError):
    """The folder belongs to another run: nothing may be written into it, not even that this one failed."""


def check_unfinished(config: TrainConfig) -> None:
    """Raise `AnotherRunError` where ``run_dir`` holds another run, unless ``overwrite=true`` or ``resume=true``."""
    folder = Path(config.run_dir)
    if config.overwrite or config.resume:
        return
    if (folder / SUMMARY).is_file():
        raise AnotherRunError(
            f"hydra.run.dir={folder}: a finished run is there; name another folder, or overwrite=true replaces it"
        )
    if (folder / LAST).is_file():
        raise AnotherRunError(
            f"hydra.run.dir={folder}: an interrupted run is there; go on with: python train.py resume={folder}, or "
            "overwrite=true begins anew"
        )


def finished_before(config: TrainConfig) -> bool:
    """Whether ``run_dir`` holds this job of a sweep, finished; ``resume`` is set where it was interrupted.

    Raises `AnotherRunError` where it holds a run with other settings. ``overwrite=true`` trains anew whatever is there.
    """
    folder = Path(config.run_dir)
    finished = (folder / SUMMARY).is_file()
    if config.overwrite or not (finished or (folder / LAST).is_file()):
        return False
    saved, settings = _plain(OmegaConf.load(folder / "config.yaml")), _plain(OmegaConf.structured(config))
    for name, value in settings["trainer"].items():  # what a run makes of auto
        settings["trainer"][name] = saved["trainer"].get(name) if value == "auto" else value
    if shown := _differing(saved, settings):
        raise AnotherRunError(
            f"{folder}: a run with other settings is there: {shown}. Name another hydra.sweep.dir, or overwrite=true "
            "replaces it"
        )
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
    saved = _plain(OmegaConf.load(last.parents[1] / "config.yaml"))
    before, now = (each["trainer"]["strategy"] for each in (saved, settings))
    if (before == "fsdp") != (now == "fsdp"):
        raise AnotherRunError(
            f"resume=true trainer.strategy={now}: the run in {last.parents[1]} has trainer.strategy={before}, and fsdp "
            f"numbers the optimizer's states in another way; use trainer.strategy={'fsdp' if now != 'fsdp' else 'ddp'}"
        )
    if shown := _differing(saved, settings):
        raise AnotherRunError(
            f"resume=true: {last} is of a run with other settings: {shown}. Give those of its config.yaml "
            f"(resume={last.parents[1]} does), or start a new run in another hydra.run.dir"
        )
    return last


def _plain(settings: Any) -> dict[str, Any]:
    return cast(dict[str, Any], OmegaConf.to_container(settings))


def _differing(saved: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """In which settings the two differ, in words."""
    before, now = _flat(saved), _flat(settings)
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return "; ".join(f"{name} was {before.get(name)!r:.60}, now {now.get(name)!r:.60}" for name in names)


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in settings.items():
        full = f"{prefix}{name}"
        if full in IGNORED_ON_RESUME:
            continue
        found |= _flat(value, f"{full}.") if isinstance(value, Mapping) and value else {full: value}
    return found
