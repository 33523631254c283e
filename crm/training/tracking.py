"""Where a run is written down. In: a run folder and the kind of logger. Out: Lightning loggers, and a clean end.

CSV is always written, so that tables and plots never depend on a service. W&B is offline unless the user has logged
in: no prompt and no network.
"""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Iterator, Mapping, Sequence
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
from crm.report.trackers import NO_TENSORBOARD, wandb_logged_in

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
            self._cut_at_first_step = False
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
    kind: str,
    run_dir: Path,
    *,
    project: str,
    name: str | None,
    config: dict[str, Any],
    group: str | None = None,
    resume: bool = False,
) -> list[Logger]:
    """CSV first, then the chosen one. ``config`` is a plain dict and is logged to all of them.

    W&B shows the runs of one ``group`` together.
    """
    loggers: list[Logger] = [CsvLogger(run_dir / "metrics.csv", resume)]
    if kind == "wandb":
        offline = not wandb_logged_in()
        if offline:
            log.info("W&B runs offline (not logged in); `wandb sync %s` uploads it later", run_dir / "wandb")
        (run_dir / "wandb").mkdir(parents=True, exist_ok=True)
        loggers.append(WandbLogger(name=name, project=project, save_dir=run_dir, offline=offline, group=group))
    elif kind == "tensorboard":
        loggers.append(_tensorboard(run_dir))
    for logger in loggers:
        logger.log_hyperparams(config)
    return loggers


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
