"""Which device a process trains on. In: settings of the trainer. Out: the device, and what it computes fast."""

from __future__ import annotations

import logging
import os
from typing import Protocol

import torch
from lightning.pytorch.utilities import rank_zero_only

from crm.training.config import TrainerConfig
from crm.training.number_formats import computes_bfloat16

log = logging.getLogger(__name__)


def training_device(accelerator: str) -> torch.device:
    """The device of this process, by Lightning's rules: its local rank's GPU where GPUs are asked for and there."""
    if accelerator in ("gpu", "auto") and torch.cuda.is_available():
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    mps = accelerator == "mps" or (accelerator in ("gpu", "auto") and torch.backends.mps.is_available())
    return torch.device("mps" if mps else "cpu")


class HasTrainer(Protocol):
    """The settings of a command that has a trainer."""

    @property
    def trainer(self) -> TrainerConfig:
        """Its settings."""
        ...


def settle_precision(config: HasTrainer) -> None:
    """Replace ``trainer.precision=auto`` by what the device of this process computes fast."""
    if config.trainer.precision == "auto":
        fast = computes_bfloat16(training_device(config.trainer.accelerator))
        config.trainer.precision = "bf16-mixed" if fast else "32-true"
        rank_zero_only(log.info)("trainer.precision: %s on this device", config.trainer.precision)


def check_accelerator(accelerator: str, devices: int) -> None:
    """Raise ``ValueError`` where torch sees too few devices of the kind asked for."""
    seen = {"cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available()), "cpu": devices}
    kind = training_device(accelerator).type
    there = 0 if kind == "cpu" and accelerator == "gpu" else seen[kind]
    if devices > there:
        raise ValueError(
            f"trainer.accelerator={accelerator} trainer.devices={devices}: torch {torch.__version__} sees {there} such "
            "devices here; use trainer.devices=<that many>, trainer=cpu, or a torch built for your GPU"
        )
