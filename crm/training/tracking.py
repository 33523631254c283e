"""Where a run is written down. In: a run folder and the kind of logger. Out: Lightning loggers, and a clean end.

CSV is always written, so that tables and plots never depend on a service. W&B is offline unless the user has logged
in: no prompt and no network.
"""

from __future__ import annotations

import csv
import io
import logging
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from lightning.pytorch import loggers as kinds
from lightning.pytorch.loggers import Logger, WandbLogger
from lightning.pytorch.utilities import rank_zero_only
from torch import Tensor

from crm.io.files import replace_file
from crm.report.trackers import NO_TENSORBOARD, Tracker, wandb_mode

log = logging.getLogger(__name__)


class CsvLogger(Logger):
    """``metrics.csv``: one row a logging call, written at once, a column a metric.

    A run that goes on from a checkpoint keeps the rows of the steps before it: the first step that is logged again
    replaces itself and everything after it, which the killed run wrote past its last checkpoint.
    """

    def __init__(self, path: Path, resume: bool) -> None:
        super().__init__()
        self._path = path
        self._columns = ["epoch", "step"]
        self._rows: list[dict[str, str]] = []
        self._cut_at_first_step = resume
        self.on_resume: Callable[[Sequence[Mapping[str, str]]], None] | None = None
        """Called once with the rows that a resumed run keeps, before anything is added to them."""
        if resume and path.is_file():
            self._columns, self._rows = _read_rows(path, self._columns)

    @property
    def name(self) -> str:
        """Part of Lightning's interface; one file needs no name."""
        return "csv"

    @property
    def version(self) -> str:
        """Part of Lightning's interface."""
        return ""

    @rank_zero_only
    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        """The configuration stands in ``config.yaml`` already."""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Append a row; a metric that is new gives a new column."""
        if self._cut_at_first_step and step is not None:
            self._rows = [row for row in self._rows if int(row["step"]) < step]
            self._resumed()
            self._rewrite()
        row = {key: str(value) for key, value in metrics.items()} | {"step": str(step)}
        if row in self._rows[-2:]:
            return  # before a checkpoint a step and its epoch are written down at once, and then once more
        self._rows.append(row)
        new = sorted(set(row) - set(self._columns))
        if new or len(self._rows) == 1:
            self._columns += new
            self._rewrite()
        else:
            with self._path.open("a", encoding="utf-8", newline="") as file:
                self._writer(file).writerow(row)

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """A run that had ended already logs nothing more, and keeps all its rows."""
        if self._cut_at_first_step:
            self._resumed()

    def _resumed(self) -> None:
        self._cut_at_first_step = False
        if self.on_resume:
            self.on_resume(self._rows)

    def _rewrite(self) -> None:
        buffer = io.StringIO()
        writer = self._writer(buffer)
        writer.writeheader()
        writer.writerows(self._rows)
        replace_file(self._path, buffer.getvalue())

    def _writer(self, file: Any) -> csv.DictWriter[str]:
        return csv.DictWriter(file, self._columns, restval="", lineterminator="\n")


def _read_rows(path: Path, columns: list[str]) -> tuple[list[str], list[dict[str, str]]]:
    """Columns and rows of an earlier run, without a last line that was cut. Raises ``ValueError`` for another file."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            found = list(reader.fieldnames or columns)
            rows = [row for row in reader if None not in row.values() and None not in row]
        for row in rows:
            int(row["step"])
    except (ValueError, KeyError, csv.Error) as error:
        raise ValueError(
            f"{path}: is damaged ({error!s:.100}); move it away, then resume=true starts a new one"
        ) from None
    return found, rows


def build_loggers(
    settings: Tracker, run_dir: Path, *, name: str, group: str, config: dict[str, Any], resume: bool = False
) -> list[Logger]:
    """CSV first, then those of ``settings``, which may have a ``name`` and a ``group`` of their own.

    ``config`` is a plain dict and is logged to all of them.
    """
    table = CsvLogger(run_dir / "metrics.csv", resume)
    loggers: list[Logger] = [table]
    if "wandb" in settings.kinds:
        loggers.append(_wandb(settings, run_dir, table, settings.wandb_settings(name, group), resume))
    if "tensorboard" in settings.kinds:
        loggers.append(_tensorboard(run_dir))
    for logger in loggers:
        logger.log_hyperparams(config)
    return loggers


class OnceWandbLogger(WandbLogger):
    """W&B without the rows that are logged twice: those of a checkpoint's step, as `CsvLogger` leaves them out too."""

    _last: tuple[tuple[int | None, dict[str, float]], ...] = ()

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Log a row, unless it is one of the last two."""
        row = (step, dict(metrics))
        if row not in self._last:
            self._last = (*self._last[-1:], row)
            super().log_metrics(metrics, step)


def _wandb(settings: Tracker, run_dir: Path, table: CsvLogger, run: dict[str, Any], resume: bool) -> WandbLogger:
    """One run folder is one W&B run: its id is kept there, and a resumed run goes on under it.

    Offline, W&B begins a new file whenever it starts, so the rows of ``table`` up to the checkpoint are written into
    it again and the old file goes: one run on disk, with every step once.
    """
    mode, folder = wandb_mode(settings.mode), run_dir / "wandb"
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "run_id.txt"
    if not (resume and kept.is_file()):
        replace_file(kept, secrets.token_hex(4))
    run_id = kept.read_text(encoding="utf-8").strip()
    old = sorted(folder.glob(f"offline-run-*-{run_id}"))
    logger = OnceWandbLogger(save_dir=run_dir, offline=mode == "offline", id=run_id, resume="allow", mode=mode, **run)
    if mode == "offline":
        log.info("W&B runs offline; `wandb sync %s/offline-run-*` uploads it", folder)

        def replay(rows: Sequence[Mapping[str, str]]) -> None:
            for row in rows:
                numbers = {key: float(value) for key, value in row.items() if value and key != "step"}
                logger.log_metrics(numbers, int(row["step"]))
            for each in old:
                shutil.rmtree(each)

        table.on_resume = replay
    return logger


def _tensorboard(run_dir: Path) -> Logger:
    try:
        return kinds.TensorBoardLogger(run_dir, name="tensorboard", version="")
    except ModuleNotFoundError:
        raise ValueError(NO_TENSORBOARD) from None


@contextmanager
def finished(loggers: list[Logger]) -> Iterator[None]:
    """End W&B's run whatever happens, as failed where the body raised: the next job of a sweep gets its own."""
    exit_code = 1
    try:
        yield
        exit_code = 0
    finally:
        for logger in loggers:
            logger.finalize("success" if exit_code == 0 else "failed")
        if any(isinstance(logger, WandbLogger) for logger in loggers):
            import wandb

            wandb.finish(exit_code=exit_code)


def log_summary(loggers: list[Logger], numbers: Mapping[str, float], tables: Mapping[str, pd.DataFrame]) -> None:
    """Final numbers and tables where the logger has a place for them (W&B); the caller keeps its own files."""
    for logger in loggers:
        if isinstance(logger, WandbLogger):
            logger.experiment.summary.update(dict(numbers))
            for key, frame in tables.items():
                logger.log_table(key, dataframe=frame)


@rank_zero_only
def log_histogram(loggers: list[Logger], name: str, counts: Tensor, edges: Sequence[float], step: int) -> None:
    """``counts`` (bins,) between ``edges`` (bins + 1), for the trackers that draw histograms; a CSV file does not."""
    for logger in loggers:
        if isinstance(logger, WandbLogger):
            import wandb

            drawn = wandb.Histogram(np_histogram=(counts.cpu().numpy(), np.asarray(edges)))
            logger.experiment.log({name: drawn, "trainer/global_step": step})
        elif isinstance(logger, kinds.TensorBoardLogger) and counts.sum():
            middles = (torch.tensor(edges[1:]) + torch.tensor(edges[:-1])) / 2
            logger.experiment.add_histogram_raw(
                name,
                min=edges[0],
                max=edges[-1],
                num=int(counts.sum()),
                sum=float((middles * counts.cpu()).sum()),
                sum_squares=float((middles.square() * counts.cpu()).sum()),
                bucket_limits=list(edges[1:]),
                bucket_counts=counts.tolist(),
                global_step=step,
            )


def log_artifact(loggers: list[Logger], name: str, files: list[Path]) -> None:
    """Result files as one W&B artifact; only of an online run, since an offline one could not be fetched again."""
    for logger in loggers:
        if isinstance(logger, WandbLogger) and not logger._offline:
            import wandb

            artifact = wandb.Artifact(name, type="result")
            for file in files:
                artifact.add_file(str(file))
            logger.experiment.log_artifact(artifact)
