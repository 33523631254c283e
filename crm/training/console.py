"""What a run prints: few lines, readable in a terminal and in a log file."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping

import torch
from torch import nn

from crm.io.files import shown_path
from crm.training.config import TrainConfig

log = logging.getLogger(__name__)
LARGE = 500_000_000
"""Weights from which on a CPU is no place to train."""
NOISE = ("💡 Tip", "GPU available", "TPU available", "HPU available", "`weights_only` was not")
"""Beginnings of Lightning's messages that are no news (2026-11, Lightning 2.6.6)."""
WARNINGS = (
    # 2026-11: Lightning 2.6.6 calls a function that torch 2.13 deprecates; gone with a later Lightning.
    r".*treespec, LeafSpec.*is deprecated",
    # 2026-11: the run folder holds the log, and in a resumed run its own checkpoints.
    r"Checkpoint directory .* exists and is not empty",
    r"Experiment logs directory .* exists and is not empty",
    # 2026-11: torch 2.13 warns of views from a sharded model because they must not be changed in place; nothing does.
    r"FSDP2-wrapped module .* returned a view tensor",
    # 2026-11: our loaders hold finished tensors; worker processes would only copy them.
    r"The '\w+_dataloader' does not have many workers",
    # 2026-11: these numbers are reduced already, and the same on every rank.
    r"It is recommended to use `self.log\('validation/",
    # 2026-11: Lightning 2.6.6 looks for a sampler's indices; our rows know their ids.
    r"Couldn't infer the batch indices fetched from your dataloader",
)


def quieten() -> None:
    """Hide, one by one, messages that are no news to a user. Calling it again changes nothing."""
    for name in ("utilities.rank_zero", "trainer.connectors.checkpoint_connector"):
        logger = logging.getLogger(f"lightning.pytorch.{name}")
        if _is_news not in logger.filters:
            logger.addFilter(_is_news)
    # Lightning prints through handlers of its own beside Hydra's, so that every message would come twice.
    for name in ("lightning", "lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = True
    for message in WARNINGS:
        warnings.filterwarnings("ignore", message=message)


def _is_news(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(NOISE)


def duration(seconds: float) -> str:
    """A length of time in words: ``40 s``, ``8 min``, ``2 h 05 min``."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"


def show_counts(splits: Mapping[str, int], epoch: Mapping[str, int]) -> None:
    """Rows of the source, and of an epoch of training: trained on, and dropped and why."""
    log.info("source: %s", _listed(splits))
    dropped = {key: epoch[key] for key in ("ties_dropped", "without_criteria", "overlong") if epoch.get(key)}
    log.info("an epoch: %d comparisons to train on%s", epoch["trained_on"], f" ({_listed(dropped)})" if dropped else "")


def show_run(config: TrainConfig, model: nn.Module, rows: int, steps: int) -> None:
    """One line on what is trained, on what, where, and into which folder; a warning for a large model on a CPU."""
    trainer, data = config.trainer, config.data
    weights = sum(p.numel() for p in model.parameters())
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    share = "all trained" if trained == weights else f"{_short(trained)} trained"
    devices = int(trainer.devices) * int(trainer.nodes)
    where = f"{devices} x {trainer.accelerator}{f' ({trainer.strategy})' if devices > 1 else ''}"
    rows_of = f"{data.path or data.name}{' (simulated templates)' if data.name == 'simulation' else ''}"
    log.info(
        f"train: {config.model.name} ({_short(weights)} weights, {share}), head={config.head.name} "
        f"loss={config.loss.name}; data {rows_of}, {rows:,} comparisons an epoch; {where}, {trainer.precision}; "
        f"{config.schedule.comparisons_per_step} comparisons a step, at most {steps:,} steps; "
        f"into {shown_path(config.run_dir)}"
    )
    if trainer.accelerator == "cpu" and weights > LARGE:
        log.warning(
            "train: %s has %s weights and trains on a CPU: torch %s sees no GPU here. That takes days; a CUDA build of "
            "torch (make TORCH=cuda install) or another machine is faster",
            *(config.model.name, _short(weights), torch.__version__),
        )


def _short(count: int) -> str:
    """A number of weights: ``4.0B``, ``135M``, ``359k``."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.1f}{unit}" if count < 10 * size else f"{count / size:.0f}{unit}"
    return str(count)


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items() if count)
