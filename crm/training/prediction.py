"""A trainer that only reads. In: checked settings of devices and precision. Out: Lightning's trainer for `predict`."""

from __future__ import annotations

import logging
from pathlib import Path

import lightning as L
import torch
from lightning.pytorch.utilities import rank_zero_only

from crm.training.console import quieten
from crm.training.devices import HasTrainer, settle_devices, settle_precision
from crm.training.strategies import engine


def prediction_trainer(config: HasTrainer, run_dir: Path) -> L.Trainer:
    """A trainer of the devices, strategy and precision in ``config.trainer``; it saves and logs nothing.

    In ``config`` the accelerator ``auto`` becomes a CUDA GPU where there is one, else the CPU, and the precision
    ``auto`` what that computes fast. Raises ``ValueError`` for devices that are not there, and where torchrun or SLURM
    started another number of processes.
    """
    settings = config.trainer
    quieten()
    settle_devices(settings)
    settle_precision(config)
    if settings.threads:
        torch.set_num_threads(settings.threads)
    if getattr(rank_zero_only, "rank", 0):
        logging.getLogger("crm").setLevel(logging.WARNING)  # the first process says what all do
    return L.Trainer(**engine(settings, run_dir), logger=False, enable_checkpointing=False, enable_progress_bar=False)
