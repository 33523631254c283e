"""Loggers of a run: ``metrics.csv`` always, W&B and TensorBoard on request."""

from __future__ import annotations

import csv
import logging
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from omegaconf import OmegaConf
from requests.utils import get_netrc_auth

from crm.io.files import replace_file
from crm.training.config import LoggerConfig, TrainConfig
from crm.training.sweeps import OVERRIDES

if TYPE_CHECKING:  # Lightning takes seconds to load, and rankings without W&B do without
    from lightning.pytorch.loggers import Logger

log = logging.getLogger(__name__)
NAMED = ("model", "head", "loss", "data", "data.path", "seed", "logger", "resume", "overwrite")
"""Settings that a run's name has anyway, or that say nothing of it."""


def run_loggers(config: TrainConfig, settings: dict[str, Any], resume: Path | None) -> list[Logger]:
    """Loggers of this run, which go on from the step of ``resume``."""
    import torch

    done = torch.load(resume, map_location="cpu", weights_only=True, mmap=True)["global_step"] if resume else 0
    rows = rows_before(Path(config.run_dir) / "metrics.csv", done)
    data = Path(config.data.path).stem if config.data.path else config.data.name
    written = Path(config.run_dir) / OVERRIDES  # what was typed to begin the run
    words = [str(word) for word in OmegaConf.load(written)] if written.is_file() else []
    typed = (word for word in words if word.partition("=")[0] not in NAMED and not word.startswith("logger."))
    group = " ".join([config.model.name, config.head.name, data, *typed])[:100]  # W&B takes 128, with the seed
    return build_loggers(config.logger, Path(config.run_dir), f"{group} seed {config.seed}", group, settings, rows)


def rows_before(path: Path, step: int) -> list[dict[str, str]]:
    """Rows of an interrupted run's ``metrics.csv`` before optimizer step ``step``, which a resumed run keeps."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if (row.get("step") or "").isdigit() and int(row["step"]) < step]


def build_loggers(
    settings: LoggerConfig,
    run_dir: Path,
    name: str,
    group: str,
    config: dict[str, Any],
    rows: Sequence[Mapping[str, str]] = (),
) -> list[Logger]:
    """CSV first, then those of ``settings``, whose ``name`` and ``group`` go before these.

    ``config`` is a plain dict. ``rows`` of an interrupted run go into the CSV file again, which Lightning begins anew;
    with them its run in W&B goes on too.
    """
    from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger, WandbLogger
    from lightning.pytorch.utilities import rank_zero_only

    table = CSVLogger(run_dir, name="", version="", flush_logs_every_n_steps=1)
    for row in rows:
        numbers: dict[str, Any] = {key: float(value) for key, value in row.items() if value and key != "step"}
        table.log_metrics(numbers, int(row["step"]))
    loggers: list[Logger] = [table]
    if "wandb" in settings.kinds:
        mode, folder = wandb_mode(), run_dir / "wandb"
        if mode == "offline":
            log.info("W&B runs offline; `wandb sync %s/offline-run-*` uploads it", folder)
        run: dict[str, Any] = {"name": settings.name or name, "group": settings.group or group, "mode": mode}
        known = folder / "run_id.txt"
        run["id"] = known.read_text() if rows and known.is_file() else token_hex(8)
        rank_zero_only(replace_file)(known, run["id"])  # other ranks log nothing
        run["resume"] = "allow"
        loggers.append(WandbLogger(save_dir=run_dir, offline=mode == "offline", project=settings.project, **run))
    if "tensorboard" in settings.kinds:
        loggers.append(TensorBoardLogger(run_dir, name="tensorboard", version=""))
    for logger in loggers[1:]:
        logger.log_hyperparams(config)
    return loggers


def wandb_mode() -> str:
    """That of ``WANDB_MODE``, else online where a key is at hand, else offline."""
    import wandb

    # `wandb.login` would ask the network.
    key = os.environ.get("WANDB_API_KEY") or get_netrc_auth(wandb.Settings().base_url)
    chosen = os.environ.get("WANDB_MODE") or ("online" if key else "offline")
    return "offline" if chosen == "dryrun" else chosen  # which Lightning sets for the next job of a sweep


@contextmanager
def finished(loggers: list[Logger]) -> Iterator[None]:
    """End W&B's run at the end, as failed where the body raised: the next job of a sweep gets its own."""
    from lightning.pytorch.loggers import WandbLogger

    status = "failed"
    try:
        yield
        status = "success"
    finally:
        for logger in loggers:
            logger.finalize(status)
        if any(isinstance(logger, WandbLogger) for logger in loggers):
            import wandb

            wandb.finish(exit_code=int(status == "failed"))


def log_summary(loggers: list[Logger], numbers: Mapping[str, float]) -> None:
    """Final numbers into W&B's summary; the files of the run hold them anyway."""
    from lightning.pytorch.loggers import WandbLogger

    for logger in loggers:
        if isinstance(logger, WandbLogger):
            logger.experiment.summary.update(dict(numbers))


def track(
    settings: LoggerConfig,
    run_dir: Path,
    *,
    name: str,
    group: str,
    config: dict[str, Any],
    numbers: Mapping[str, float],
) -> None:
    """Log ``numbers``, named ``split/name``, as one run in W&B or TensorBoard; finite numbers only."""
    if not {"wandb", "tensorboard"}.intersection(settings.kinds):
        return
    loggers = build_loggers(settings, run_dir, name, group, config)[1:]
    with finished(loggers):
        for logger in loggers:
            logger.log_metrics({key: float(value) for key, value in numbers.items() if math.isfinite(value)}, 0)


def check_tracker(kinds: Sequence[str]) -> None:
    """Raise ``ValueError`` for a tracker that is not installed, before anything is computed."""
    if "tensorboard" in kinds and find_spec("tensorboard") is None:
        raise ValueError("logger=tensorboard: pip install 'crm-leaderboard[tensorboard]', or use logger=csv")
