"""Groups that say how a model is trained: optimizer, trainer, batches, loggers. In: composed values. Out: checked ones.

As in `config_groups`, ranges and combinations within a group fail in ``__post_init__``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from omegaconf import MISSING

from crm.config_groups import PRECISIONS, one_of, require
from crm.data.forest import BATCHINGS

LOGGERS = ("csv", "wandb", "tensorboard")


@dataclass
class OptimizerConfig:
    """AdamW, or Muon for the matrices of the layers and AdamW for the rest; linear warm-up, cosine to zero."""

    name: str = "adamw"
    lr: float = 1e-5
    matrix_lr: float = 5e-3
    """Peak rate of Muon."""
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    warmup_fraction: float = 0.03
    """Share of all optimizer steps."""
    clip: float = 1.0
    """Gradient norm at which gradients are clipped; 0 is off."""

    def __post_init__(self) -> None:
        one_of("optimizer.name", self.name, ("adamw", "muon"))
        for name in ("lr", "matrix_lr"):
            require(0 < getattr(self, name) < math.inf, f"optimizer.{name}", getattr(self, name), "a positive rate")
        require(0 <= self.weight_decay < math.inf, "optimizer.weight_decay", self.weight_decay, "0 or more")
        for name in ("beta1", "beta2"):
            require(0 <= getattr(self, name) < 1, f"optimizer.{name}", getattr(self, name), "a rate in [0, 1)")
        require(0 <= self.warmup_fraction < 1, "optimizer.warmup_fraction", self.warmup_fraction, "a share in [0, 1)")
        require(0 <= self.clip < math.inf, "optimizer.clip", self.clip, "0 (off) or a positive norm")


@dataclass
class TrainerConfig:
    """Devices, precision and the length of a run."""

    name: str = MISSING
    accelerator: str = "cpu"
    devices: int = 1
    """Processes on this machine, one a device."""
    nodes: int = 1
    strategy: str = "auto"
    zero_stage: int = 2
    """Of DeepSpeed: 2 shards gradients and optimizer, 3 the weights too."""
    precision: str = "32-true"
    """Of arithmetic; weights and optimizer stay float32, in which small steps are not rounded away."""
    compile: bool = False
    """Compile the decoder layers; needs a C++ compiler on CPU and Triton on GPU."""
    liger: bool = False
    """RMSNorm, SwiGLU and rotary embedding by Liger's kernels: GPU only, and a package of its own."""
    peak_tflops: float = 0.0
    """Peak TFLOP/s of a device for throughput/mfu; 0 looks it up by the device's name."""
    threads: int = 0
    """CPU threads a process; 0 leaves torch's default. Resumed runs repeat bit by bit with 1."""
    epochs: int = 3
    max_steps: int = 0
    """Optimizer steps; 0 means as many as ``epochs`` makes."""
    batch_size: int = 1
    """Comparisons a device and padded forward pass."""
    accumulate: int = 32
    """Padded forward passes an optimizer step. Packed, a step has ``batch_size`` x ``accumulate`` comparisons a device
    in as many passes as ``batching.tokens`` asks for."""
    validate_every: int = 50
    """Optimizer steps; 0 validates at the end of each epoch."""
    patience: int = 3
    """Validations without a better loss before training stops; 0 never stops early."""
    save_every: int = 50
    """Optimizer steps between checkpoints to resume from; 0 saves none."""
    progress: bool = True

    def __post_init__(self) -> None:
        for name in ("devices", "nodes", "epochs", "batch_size", "accumulate"):
            require(getattr(self, name) >= 1, f"trainer.{name}", getattr(self, name), "1 or more")
        for name in ("threads", "max_steps", "validate_every", "patience", "save_every"):
            require(getattr(self, name) >= 0, f"trainer.{name}", getattr(self, name), "0 or more")
        one_of("trainer.strategy", self.strategy, ("auto", "ddp", "fsdp", "deepspeed"))
        one_of("trainer.accelerator", self.accelerator, ("cpu", "gpu", "mps", "auto"))
        require(self.zero_stage in (2, 3), "trainer.zero_stage", self.zero_stage, "2 or 3")
        require(
            self.strategy != "deepspeed" or self.accelerator != "cpu",
            "trainer.strategy",
            self.strategy,
            "auto, ddp or fsdp with trainer.accelerator=cpu; Lightning runs DeepSpeed on GPUs only",
        )
        if self.precision == "bf16-true":
            raise ValueError(
                "trainer.precision='bf16-true': weights in bfloat16 round away steps below 1/512 of a weight, which is "
                "most of them at optimizer.lr=1e-5; use bf16-mixed: bfloat16 arithmetic on float32 weights"
            )
        one_of("trainer.precision", self.precision, PRECISIONS)
        require(0 <= self.peak_tflops < math.inf, "trainer.peak_tflops", self.peak_tflops, "0 (look up) or TFLOP/s")
        self._check_kernels()

    def _check_kernels(self) -> None:
        require(
            not self.liger or self.accelerator in ("gpu", "auto"),
            "trainer.liger",
            self.liger,
            f"false with trainer.accelerator={self.accelerator}: its kernels need a CUDA GPU",
        )
        require(
            not (self.liger and self.compile),
            "trainer.liger",
            self.liger,
            "false with trainer.compile=true: both replace the same operations",
        )


@dataclass
class BatchingConfig:
    """How comparisons become forward passes; the numbers that come out are the same."""

    name: str = "tree"
    """``padded``; ``packed``: no padding; ``tree``: and common beginnings once; ``prompt_tree``: and a step has all
    comparisons of a prompt."""
    tokens: int = 4096
    """Most tokens of a forward pass on one device; an optimizer step takes as many passes as the first epoch needs, and
    draws of later epochs may exceed it a little. Not of padded batches, which have ``trainer.batch_size`` rows."""

    def __post_init__(self) -> None:
        one_of("batching.name", self.name, BATCHINGS)
        require(self.tokens >= 1, "batching.tokens", self.tokens, "1 or more")


@dataclass
class LoggerConfig:
    """CSV is always written; W&B and TensorBoard come on top."""

    kind: str = "csv"
    project: str = "crm"
    name: str | None = None

    def __post_init__(self) -> None:
        one_of("logger.kind", self.kind, LOGGERS)
