"""Settings of `train.py`. In: the values Hydra composed. Out: checked ones; ranges and combinations fail here."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from omegaconf import MISSING

from crm.config import PRECISIONS, one_of, require
from crm.dataset.comparisons import CRITERIA_MODES, TIES
from crm.dataset.config import DataConfig, DirectionConfig, NoiseConfig
from crm.model.config import BatchingConfig, HeadConfig, ModelConfig, PromptConfig
from crm.model.heads import head_named

LOSSES = {"cls": "pairwise", "ranking": "scalar"}
"""The losses of the paper and the head each selects when ``head=auto``."""
LOGGERS = ("csv", "wandb", "tensorboard")


@dataclass
class LossConfig:
    """Both losses are -log sigmoid of the preference logit; they differ in the head they select."""

    name: str = "cls"
    label_smoothing: float = 0.0
    """Share of the target moved to 1/2, in [0, 1)."""
    ties: str = "drop"
    """``drop`` leaves ties out and counts them; ``soft`` trains on them with target 1/2."""
    centre_scores: float = 0.0
    """Weight of (score_a + score_b)^2; needs a head with scores."""

    def __post_init__(self) -> None:
        one_of("loss.name", self.name, tuple(LOSSES))
        one_of("loss.ties", self.ties, TIES)
        require(0 <= self.label_smoothing < 1, "loss.label_smoothing", self.label_smoothing, "a share in [0, 1)")
        require(0 <= self.centre_scores < math.inf, "loss.centre_scores", self.centre_scores, "a weight of 0 or more")


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
    """Of arithmetic; weights and optimizer stay float32, in which small steps are not rounded away. ``auto`` becomes
    bf16-mixed where the device computes in bfloat16, else 32-true: without such instructions it is up to 80 times
    slower."""
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
        one_of("trainer.precision", self.precision, (*PRECISIONS, "auto"))
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
class LoggerConfig:
    """CSV is always written; W&B and TensorBoard come on top."""

    kind: str = "csv"
    project: str = "crm"
    name: str | None = None
    """Of the run in W&B; null is the group and the seed."""
    group: str | None = None
    """Of runs that W&B shows together, those of a sweep over seeds for one; null is model, head and loss."""

    def __post_init__(self) -> None:
        one_of("logger.kind", self.kind, LOGGERS)


@dataclass
class TrainConfig:
    """``train.py``."""

    model: ModelConfig = field(default_factory=ModelConfig)
    head: HeadConfig = field(default_factory=HeadConfig)
    prompt: PromptConfig = field(default_factory=PromptConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    noise: NoiseConfig = field(default_factory=NoiseConfig)
    direction: DirectionConfig = field(default_factory=DirectionConfig)
    data: DataConfig = field(default_factory=DataConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    batching: BatchingConfig = field(default_factory=BatchingConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    criteria: str = "own"
    """``none`` shows one generic criterion instead of the user's: the criteria-blind control."""
    seed: int = 42
    run_dir: str = "${hydra:runtime.output_dir}"
    resume: bool = False
    """Go on from the last checkpoint in ``run_dir``."""

    def __post_init__(self) -> None:
        one_of("criteria", self.criteria, CRITERIA_MODES)
        if self.head.name == "auto":
            self.head.name = LOSSES[self.loss.name]
        require(
            self.criteria == "own" or self.noise.kind == "none",
            "noise.kind",
            self.noise.kind,
            "none with criteria=none: the one generic criterion is never perturbed",
        )
        require(
            self.trainer.strategy not in ("fsdp", "deepspeed")
            or not self.model.freeze_layers
            or self.model.kept_states == "off",
            "model.kept_states",
            self.model.kept_states,
            "off with trainer.strategy=fsdp or deepspeed: sharded weights cannot run the frozen layers alone",
        )
        if self.loss.centre_scores and not head_named(self.head.name).has_scores:
            raise ValueError(
                f"loss.centre_scores={self.loss.centre_scores} with head={self.head.name}: that head has no scores to "
                "centre; use head=scalar or head=pairwise_span, or loss.centre_scores=0"
            )
