"""Loggers of a run: ``metrics.csv`` always, W&B and TensorBoard on request."""

from __future__ import annotations

import csv
import logging
import math
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from hydra.core.hydra_config import HydraConfig
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger, WandbLogger
from lightning.pytorch.utilities import rank_zero_only
from requests.utils import get_netrc_auth

from crm.io.files import replace_file
from crm.training.config import LoggerConfig, TrainConfig

log = logging.getLogger(__name__)


def run_loggers(config: TrainConfig, settings: dict[str, Any], resume: Path | None) -> list[Logger]:
    """Loggers of this run, which go on from the step of ``resume``."""
    done = torch.load(resume, map_location="cpu", weights_only=True, mmap=True)["global_step"] if resume else 0
    rows = rows_before(Path(config.run_dir) / "metrics.csv", done)
    group = f"{config.model.name} {config.head.name} {config.loss.name}"
    return build_loggers(config.logger, Path(config.run_dir), run_name(config), group, settings, rows)


def run_name(config: TrainConfig) -> str:
    """Model, head, data, what was overridden on the command line, and the seed: no two runs of a sweep are alike."""
    named = ("model", "head", "loss", "data", "seed", "logger", "hydra", "resume", "overwrite", "experiment")
    words = HydraConfig.get().overrides.task if HydraConfig.initialized() else []
    changed = [word for word in words if not word.startswith(named) and "path" not in word.partition("=")[0]]
    data = Path(config.data.path).stem if config.data.path else config.data.name
    return " ".join([config.model.name, config.head.name, data, *changed[:4], f"seed {config.seed}"])


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

    ``config`` is a plain dict. ``rows`` of an interrupted run are logged again where a logger would begin anew: into
    the CSV file and into an offline run of W&B.
    """
    check_tracker(settings.kinds)
    loggers: list[Logger] = [CSVLogger(run_dir, name="", version="", flush_logs_every_n_steps=1)]
    begun = loggers[:1]
    if "wandb" in settings.kinds:
        mode = wandb_mode(settings.mode)
        run: dict[str, Any] = {"name": settings.name or name, "group": settings.group or group, "mode": mode}
        loggers.append(_wandb(run_dir, {**run, "project": settings.project}, resumed=bool(rows)))
        begun += loggers[1:] if mode == "offline" else []
    if "tensorboard" in settings.kinds:
        loggers.append(TensorBoardLogger(run_dir, name="tensorboard", version=""))
    for logger in loggers[1:]:
        logger.log_hyperparams(config)
    for row in rows:
        numbers = {key: float(value) for key, value in row.items() if value and key != "step"}
        for logger in begun:
            logger.log_metrics(numbers, int(row["step"]))
    return loggers


def _wandb(run_dir: Path, run: dict[str, Any], *, resumed: bool) -> WandbLogger:
    """One run folder is one W&B run: its id is in ``run_id.txt``, and a resumed run goes on under it."""
    folder = run_dir / "wandb"
    folder.mkdir(parents=True, exist_ok=True)
    id_file = folder / "run_id.txt"
    run_id = id_file.read_text(encoding="utf-8").strip() if resumed and id_file.is_file() else secrets.token_hex(4)
    if getattr(rank_zero_only, "rank", 0) == 0:
        replace_file(id_file, run_id)
        for old in folder.glob(f"offline-run-*-{run_id}"):  # its rows are logged again
            shutil.rmtree(old)
    offline = run["mode"] == "offline"
    if offline:
        log.info("W&B runs offline; `wandb sync %s/offline-run-*` uploads it", folder)
    return WandbLogger(save_dir=run_dir, offline=offline, id=run_id, resume="allow", **run)


def wandb_mode(mode: str | None) -> str:
    """The ``mode`` that was asked for, else that of ``WANDB_MODE``, else online where a key is at hand."""
    import wandb

    # `wandb.login` would ask the network.
    key = os.environ.get("WANDB_API_KEY") or get_netrc_auth(wandb.Settings().base_url)
    chosen = mode or os.environ.get("WANDB_MODE") or ("online" if key else "offline")
    return "offline" if chosen == "dryrun" else chosen  # which Lightning sets for the next job of a sweep


@contextmanager
def finished(loggers: list[Logger]) -> Iterator[None]:
    """End W&B's run at the end, as failed where the body raised: the next job of a sweep gets its own."""
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


def log_summary(loggers: list[Logger], numbers: Mapping[str, float], tables: Mapping[str, pd.DataFrame]) -> None:
    """Final numbers and tables into W&B; the files of the run hold them anyway."""
    for logger in loggers:
        if isinstance(logger, WandbLogger):
            logger.experiment.summary.update(dict(numbers))
            for key, frame in tables.items():
                logger.log_table(key, dataframe=frame)


def track(
    settings: LoggerConfig,
    run_dir: Path,
    *,
    name: str,
    group: str,
    config: dict[str, Any],
    numbers: Mapping[str, float],
    tables: Mapping[str, pd.DataFrame],
) -> None:
    """Log ``numbers``, named ``split/name``, and ``tables`` as one run in W&B or TensorBoard; finite numbers only."""
    loggers = build_loggers(settings, run_dir, name, group, config)[1:]
    known = {key: float(value) for key, value in numbers.items() if math.isfinite(value)}
    with finished(loggers):
        for logger in loggers:
            logger.log_metrics(known, 0)
        log_summary(loggers, known, tables)


def check_tracker(kinds: Sequence[str]) -> None:
    """Raise ``ValueError`` for a tracker that is not installed, before anything is computed."""
    if "tensorboard" in kinds and find_spec("tensorboard") is None:
        raise ValueError("logger=tensorboard: pip install 'crm-leaderboard[tensorboard]', or use logger=csv")
