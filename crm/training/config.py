"""Settings of `train.py`. In: the values Hydra composed. Out: checked ones; ranges and combinations fail here."""

from __future__ import annotations

from dataclasses import dataclass, field

from omegaconf import MISSING

from crm.config import MAX_SEED, PRECISIONS, Settings, setting
from crm.dataset.comparisons import CRITERIA_MODES, TIES
from crm.dataset.config import DataConfig, DirectionConfig, NoiseConfig
from crm.model.config import BatchingConfig, HeadConfig, ModelConfig, PromptConfig
from crm.model.heads import head_named

LOSSES = {"cls": "pairwise", "ranking": "scalar"}
"""The losses of the paper and the head each selects when ``head=auto``."""
ACCELERATORS = ("cpu", "gpu", "mps", "auto")


@dataclass
class LossConfig(Settings, group="loss"):
    """Both losses are -log sigmoid of the preference logit; they differ in the head they select."""

    name: str = setting("cls", one_of=LOSSES)
    label_smoothing: float = setting(0.0, at_least=0, below=1)
    """Share of the target moved to 1/2."""
    ties: str = setting("drop", one_of=TIES)
    """``drop`` leaves ties out and counts them; ``soft`` trains on them with target 1/2."""
    centre_scores: float = setting(0.0, at_least=0)
    """Weight of (score_a + score_b)^2; needs a head with scores."""
    silence: float = setting(0.0, at_least=0)
    """Weight of the squared score difference under criteria of other comparisons of a batch; needs head=late."""


@dataclass
class OptimizerConfig(Settings, group="optimizer"):
    """AdamW, or Muon for the matrices of the layers and AdamW for the rest; linear warm-up, cosine to zero."""

    name: str = setting("adamw", one_of=("adamw", "muon"))
    lr: float = setting(1e-5, above=0)
    matrix_lr: float = setting(5e-3, above=0)
    """Peak rate of Muon."""
    weight_decay: float = setting(0.0, at_least=0)
    beta1: float = setting(0.9, at_least=0, below=1)
    beta2: float = setting(0.999, at_least=0, below=1)
    warmup_fraction: float = setting(0.03, at_least=0, below=1)
    """Share of all optimizer steps."""
    clip: float = setting(1.0, at_least=0, zero="off")
    """Gradient norm at which gradients are clipped."""


@dataclass
class TrainerConfig(Settings, group="trainer"):
    """Devices, precision and the length of a run."""

    name: str = MISSING
    accelerator: str = setting("cpu", one_of=ACCELERATORS)
    devices: int = setting(1, at_least=1)
    """Processes on this machine, one a device."""
    nodes: int = setting(1, at_least=1)
    strategy: str = setting("auto", one_of=("auto", "ddp", "fsdp", "deepspeed"))
    zero_stage: int = setting(2, one_of=(2, 3))
    """Of DeepSpeed: 2 shards gradients and optimizer, 3 the weights too."""
    precision: str = setting(
        "32-true",
        one_of=(*PRECISIONS, "auto"),
        why="weights in bfloat16 (bf16-true) round away steps below 1/512 of a weight, most of them at "
        "optimizer.lr=1e-5; use bf16-mixed: bfloat16 arithmetic on float32 weights",
    )
    """Of arithmetic; weights and optimizer stay float32, in which small steps are not rounded away. ``auto`` becomes
    bf16-mixed where the device computes in bfloat16, else 32-true: without such instructions it is up to 80 times
    slower."""
    compile: bool = False
    """Compile the decoder layers; needs a C++ compiler on CPU and Triton on GPU."""
    liger: bool = False
    """RMSNorm, SwiGLU and rotary embedding by Liger's kernels: GPU only, and a package of its own."""
    peak_tflops: float = setting(0.0, at_least=0, zero="look up", unit="TFLOP/s")
    """Of a device, for throughput/mfu; 0 looks it up by the device's name."""
    threads: int = setting(0, at_least=0, zero="torch's default")
    """CPU threads a process. Resumed runs repeat bit by bit with 1."""
    epochs: int = setting(3, at_least=1)
    max_steps: int = setting(0, at_least=0, zero="as many as trainer.epochs makes")
    """Optimizer steps of the run."""
    batch_size: int = setting(1, at_least=1)
    """Comparisons a device and padded forward pass."""
    accumulate: int = setting(32, at_least=1)
    """Padded forward passes an optimizer step. Packed, a step has ``batch_size`` x ``accumulate`` comparisons a device
    in as many passes as ``batching.tokens`` asks for."""
    validate_every: int = setting(50, at_least=0, zero="at the end of each epoch", unit="optimizer steps")
    patience: int = setting(3, at_least=0, zero="never stop early", unit="validations")
    """Validations without a better loss before training stops."""
    save_every: int = setting(50, at_least=0, zero="save none", unit="optimizer steps")
    """Optimizer steps between checkpoints to resume from."""
    progress: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(
            self.strategy != "deepspeed" or self.accelerator != "cpu",
            "strategy",
            "auto, ddp or fsdp with trainer.accelerator=cpu; Lightning runs DeepSpeed on GPUs only",
        )
        self.require(
            not self.liger or self.accelerator in ("gpu", "auto"),
            "liger",
            f"false with trainer.accelerator={self.accelerator}: its kernels need a CUDA GPU",
        )
        both = self.liger and self.compile
        self.require(not both, "liger", "false with trainer.compile=true: both replace the same operations")


@dataclass
class LoggerConfig(Settings, group="logger"):
    """CSV is always written; W&B and TensorBoard come on top."""

    kind: str = setting("csv", one_of=("csv", "wandb", "tensorboard"))
    project: str = "crm"
    name: str | None = None
    """Of the run in W&B; null is the group and the seed."""
    group: str | None = None
    """Of runs that W&B shows together, those of a sweep over seeds for one; null is model, head and loss."""


@dataclass
class TrainConfig(Settings):
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
    criteria: str = setting("own", one_of=CRITERIA_MODES)
    """``none`` shows one generic criterion instead of the user's: the criteria-blind control."""
    spoiled: float = setting(0.0, at_least=0, at_most=1)
    """Share of the training comparisons whose losing response is emptied, cut, or stuffed with the criteria."""
    seed: int = setting(42, at_least=0, at_most=MAX_SEED)
    run_dir: str = "${hydra:runtime.output_dir}"
    resume: bool = False
    """Go on from the last checkpoint in ``run_dir``."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.head.name == "auto":
            self.head.name = LOSSES[self.loss.name]
        self.require(
            self.criteria == "own" or self.noise.kind == "none",
            "noise.kind",
            "none with criteria=none: the one generic criterion is never perturbed",
        )
        sharded = self.trainer.strategy in ("fsdp", "deepspeed")
        self.require(
            not (sharded and self.model.freeze_layers) or self.model.kept_states == "off",
            "model.kept_states",
            "off with trainer.strategy=fsdp or deepspeed: sharded weights cannot run the frozen layers alone",
        )
        self.require(
            self.prompt.order == "criteria_first" or not head_named(self.head.name).apart,
            "prompt.order",
            f"criteria_first with head={self.head.name}: it reads responses and criteria apart, in no order",
        )
        self.require(
            not self.loss.silence or (head_named(self.head.name).apart and self.batching.name != "table"),
            "loss.silence",
            "0, but with head=late, which scores responses by every criterion of a batch, and batching=tree or padded",
        )
        self.require(
            not self.spoiled or self.batching.name != "table",
            "spoiled",
            "0 with batching=table: tables have spoiled responses of their own",
        )
        if self.loss.centre_scores and not head_named(self.head.name).has_scores:
            raise ValueError(
                f"loss.centre_scores={self.loss.centre_scores} with head={self.head.name}: that head has no scores to "
                "centre; use head=scalar or head=pairwise_span, or loss.centre_scores=0"
            )
