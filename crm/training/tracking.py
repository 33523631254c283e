"""Loggers of a run: ``metrics.csv`` always, W&B and TensorBoard on request."""

from __future__ import annotations

import csv
import logging
import math
import netrc
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger, WandbLogger
from lightning.pytorch.utilities import rank_zero_only

from crm.io.files import replace_file
from crm.training.config import LoggerConfig

log = logging.getLogger(__name__)
WANDB_HOST = "api.wandb.ai"


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
    """CSV first, then those of ``settings``, which may have a ``name`` and a ``group`` of their own.

    ``config`` is a plain dict. ``rows`` of an interrupted run are logged again where a logger would begin anew: into
    the CSV file and into an offline run of W&B.
    """
    check_tracker(settings.kinds)
    loggers: list[Logger] = [CSVLogger(run_dir, name="", version="", flush_logs_every_n_steps=1)]
    begun = loggers[:1]
    if "wandb" in settings.kinds:
        loggers.append(_wandb(settings, run_dir, settings.name or name, settings.group or group, bool(rows)))
        begun += loggers[1:] if wandb_mode(settings.mode) == "offline" else []
    if "tensorboard" in settings.kinds:
        loggers.append(TensorBoardLogger(run_dir, name="tensorboard", version=""))
    for logger in loggers[1:]:
        logger.log_hyperparams(config)
    for row in rows:
        numbers = {key: float(value) for key, value in row.items() if value and key != "step"}
        for logger in begun:
            logger.log_metrics(numbers, int(row["step"]))
    return loggers


def _wandb(settings: LoggerConfig, run_dir: Path, name: str, group: str, resume: bool) -> WandbLogger:
    """One run folder is one W&B run: its id is kept there, and a resumed run goes on under it."""
    mode, folder = wandb_mode(settings.mode), run_dir / "wandb"
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "run_id.txt"
    run_id = kept.read_text(encoding="utf-8").strip() if resume and kept.is_file() else secrets.token_hex(4)
    if getattr(rank_zero_only, "rank", 0) == 0:
        replace_file(kept, run_id)
        for old in folder.glob(f"offline-run-*-{run_id}"):  # its rows are logged again
            shutil.rmtree(old)
    if mode == "offline":
        log.info("W&B runs offline; `wandb sync %s/offline-run-*` uploads it", folder)
    run: dict[str, Any] = {"name": name, "project": settings.project, "group": group, "mode": mode}
    run |= {"entity": settings.entity, "tags": settings.tags or None}
    return WandbLogger(save_dir=run_dir, offline=mode == "offline", id=run_id, resume="allow", **run)


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
    loggers = build_loggers(settings, run_dir, name=name, group=group, config=config)[1:]
    known = {key: float(value) for key, value in numbers.items() if math.isfinite(value)}
    with finished(loggers):
        for logger in loggers:
            logger.log_metrics(known, 0)
        log_summary(loggers, known, tables)


def check_tracker(kinds: Sequence[str]) -> None:
    """Raise ``ValueError`` for a tracker that is not installed, before anything is computed."""
    if "tensorboard" in kinds and find_spec("tensorboard") is None:
        raise ValueError("logger=tensorboard: pip install 'crm-leaderboard[tensorboard]', or use logger=csv")


def wandb_mode(mode: str | None) -> Literal["online", "offline", "disabled"]:
    """The ``mode`` that was asked for, else that of ``WANDB_MODE``, else online where a key is at hand."""
    chosen = mode or os.environ.get("WANDB_MODE") or ("online" if _wandb_key() else "offline")
    return "disabled" if chosen == "disabled" else "offline" if chosen in ("offline", "dryrun") else "online"


def _wandb_key() -> bool:
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        return netrc.netrc().authenticators(WANDB_HOST) is not None
    except (FileNotFoundError, netrc.NetrcParseError):
        return False
