"""Settings of ``train.py``, with their ranges and allowed combinations."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from crm.config import MAX_SEED, PRECISIONS, Settings, count_or_auto, setting
from crm.data.comparisons import CRITERIA_MODES
from crm.data.config import DataConfig, DirectionConfig, NoiseConfig
from crm.model.config import BatchingConfig, HeadConfig, ModelConfig
from crm.model.heads import head_named
from crm.training.loss import LossConfig

ACCELERATORS = ("cpu", "gpu", "auto")
SAME_PRECISION = {"bf16": "bf16-mixed", "fp32": "32-true", "32": "32-true", "float32": "32-true"}
"""Other names that mean exactly the same here."""


@dataclass
class OptimizerConfig(Settings, group="optimizer"):
    """AdamW, or Muon for the matrices of the layers and AdamW for the rest; linear warm-up, cosine to zero."""

    name: str = setting("adamw", one_of=("adamw", "muon"))
    lr: float = setting(1e-5, above=0)
    matrix_lr: float = setting(5e-3, above=0)
    """Peak rate of Muon."""
    weight_decay: float = setting(0.0, at_least=0)
    beta2: float = setting(0.999, at_least=0, below=1)
    warmup_fraction: float = setting(0.03, at_least=0, below=1)
    """Share of all optimizer steps."""
    clip: float = setting(1.0, at_least=0, zero="off")
    """Gradient norm at which gradients are clipped."""


@dataclass
class TrainerConfig(Settings, group="trainer"):
    """Hardware: what a run computes on. What it does is `ScheduleConfig`."""

    name: str = MISSING
    accelerator: str = setting("auto", one_of=ACCELERATORS)
    """``auto``: GPUs where torch sees some, else the CPU."""
    devices: Any = "auto"
    """Processes on this machine, one a device. ``auto`` or -1: every visible GPU, on a CPU one process, and under
    torchrun or srun what they start."""
    nodes: Any = "auto"
    """Machines. ``auto``: 1, and under torchrun or srun what they say."""
    strategy: str = setting("auto", one_of=("auto", "ddp", "fsdp"))
    """Of several devices. ``auto``: DDP where weights, gradients and optimizer fit on each, else FSDP2."""
    precision: str = setting(
        "auto",
        one_of=(*PRECISIONS, "auto"),
        why="weights in bfloat16 (bf16-true) round away steps below 1/512 of a weight, most of them at "
        "optimizer.lr=1e-5; use bf16-mixed: bfloat16 arithmetic on float32 weights",
    )
    """Of arithmetic; weights and optimizer stay float32, in which small steps are not rounded away. ``auto`` becomes
    bf16-mixed where the device computes in bfloat16, else 32-true: without such instructions it is up to 80 times
    slower."""
    compile: bool = False
    """Compile the decoder layers; needs a C++ compiler on CPU and Triton on GPU."""
    threads: int = setting(0, at_least=0, zero="1 for model=tiny, else torch's default")
    """CPU threads a process."""
    progress: bool = True

    @property
    def processes(self) -> int:
        """Of all machines together, once ``devices`` and ``nodes`` are numbers."""
        return int(self.devices) * int(self.nodes)

    def __post_init__(self) -> None:
        self.accelerator = {"cuda": "gpu"}.get(self.accelerator, self.accelerator)
        self.precision = SAME_PRECISION.get(str(self.precision), self.precision)
        super().__post_init__()
        for name in ("devices", "nodes"):
            setattr(self, name, count_or_auto(self, name))


@dataclass
class ScheduleConfig(Settings, group="schedule"):
    """What a run does, on whatever hardware: its length, its steps, when it validates, saves and stops."""

    name: str = MISSING
    epochs: int = setting(3, at_least=1)
    max_steps: int = setting(0, at_least=0, zero="as many as schedule.epochs makes")
    """Optimizer steps of the run."""
    comparisons_per_step: int = setting(32, at_least=1)
    """Comparisons of an optimizer step on all devices together; gradients are accumulated as needed."""
    validate_every: int = setting(50, at_least=0, zero="at the end of each epoch", unit="optimizer steps")
    patience: int = setting(3, at_least=0, zero="never stop early", unit="validations")
    """Validations without a better loss before training stops."""
    save_every: int = setting(50, at_least=0, zero="save none", unit="optimizer steps")
    """Optimizer steps between checkpoints to resume from."""

    def share(self, devices: int) -> int:
        """Comparisons of a step on each of ``devices``. Raises ``ValueError`` where they do not divide."""
        each, left = divmod(self.comparisons_per_step, devices)
        if left or not each:
            near = max(1, round(self.comparisons_per_step / devices)) * devices
            raise self.refused(
                "comparisons_per_step",
                f"a multiple of the {devices} devices, as schedule.comparisons_per_step={near}",
                self.comparisons_per_step,
            )
        return each


@dataclass
class LoggerConfig(Settings, group="logger"):
    """CSV is always written; W&B and TensorBoard come on top. ``logger=[csv,wandb]`` names several."""

    kinds: list[str] = setting(["csv"], one_of=("csv", "wandb", "tensorboard"))
    project: str = "crm"
    """This and what follows is for W&B, which reads ``WANDB_ENTITY``, ``WANDB_TAGS`` and ``WANDB_MODE`` too."""
    name: str | None = None
    """Of the run; null is made of model, head, data, what was overridden, and the seed."""
    group: str | None = None
    """Of runs that are shown together, those of a sweep over seeds for one; null is the same name without the seed."""


@dataclass
class TrainConfig(Settings):
    """``train.py``."""

    model: ModelConfig = field(default_factory=ModelConfig)
    head: HeadConfig = field(default_factory=HeadConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    noise: NoiseConfig = field(default_factory=NoiseConfig)
    direction: DirectionConfig = field(default_factory=DirectionConfig)
    data: DataConfig = field(default_factory=DataConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    batching: BatchingConfig = field(default_factory=BatchingConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    criteria: str = setting("own", one_of=CRITERIA_MODES)
    """``none`` shows one generic criterion instead of the user's: the criteria-blind control."""
    seed: int = setting(42, at_least=0, at_most=MAX_SEED)
    run_dir: str = "${hydra:runtime.output_dir}"
    resume: bool = False
    """Go on from the last checkpoint in ``run_dir``; ``resume=<run folder>`` reads the settings of that run too."""
    overwrite: bool = False
    """Whether a finished run in ``run_dir`` may be replaced."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.head.name = self.loss.head(self.head.name)
        head, own = head_named(self.head.name), self.criteria == "own"
        blind = "with criteria=none: the one generic criterion is neither reversed nor perturbed"
        if self.direction.kind == "auto":
            self.direction.kind = "both" if own else "original"
        self.require(own or self.direction.kind == "original", "direction.kind", f"original {blind}")
        self.require(own or self.noise.kind == "none", "noise.kind", f"none {blind}")
        apart = "0, but with head=late, which scores responses by every criterion of a pass"
        scored = f"0 with head={self.head.name}, which has no scores; use head=scalar or head=pairwise_span"
        self.require(head.apart or not self.loss.off_criteria_penalty, "loss.off_criteria_penalty", apart)
        self.require(head.has_scores or not self.loss.centre_scores, "loss.centre_scores", scored)
        self.check_sharded()
        counts = (self.trainer.devices, self.trainer.nodes)
        self.schedule.share(math.prod(count for count in counts if count != "auto"))

    def check_sharded(self) -> None:
        """Raise ``ValueError`` for what cannot be combined with ``trainer.strategy=fsdp``."""
        whole = self.trainer.strategy == "fsdp" and self.optimizer.name == "muon"
        allowed = "adamw with trainer.strategy=fsdp (Muon works on whole matrices; optimizer=paper), or trainer=ddp"
        self.require(not whole, "optimizer.name", allowed)
