"""One dataclass per group of ``conf/``, with units. In: the values Hydra composed. Out: values in range, or an error.

Ranges and combinations within a group fail in ``__post_init__`` with field, value and what is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from crm.data.direction import DIRECTIONS, TIES
from crm.data.encoding import HEADS, PROMPT_ORDERS
from crm.data.forest import BATCHINGS
from crm.data.noise import NOISES
from crm.data.sources.catalogue import OWN, SOURCES
from crm.schema import SIDES

DATA_SOURCES = ("simulation", "dataset", "summeval_aspects", *SOURCES)
LOSSES = {"cls": "pairwise", "ranking": "scalar"}
"""The losses of the paper and the head each selects when ``head=auto``."""
PRECISIONS = ("32-true", "bf16-mixed")
LOGGERS = ("csv", "wandb", "tensorboard")


def require(condition: bool, field_name: str, value: Any, allowed: str) -> None:
    """Raise ``ValueError`` naming the field, its value and what is allowed, unless ``condition`` holds."""
    if not condition:
        raise ValueError(f"{field_name}={value!r}: expected {allowed}")


def one_of(field_name: str, value: str, allowed: Sequence[str]) -> None:
    """`require` for a choice."""
    require(value in allowed, field_name, value, f"one of {', '.join(allowed)}")


def mapping(field_name: str, value: Any) -> dict[str, str] | None:
    """A mapping of texts, or null. Raises ``ValueError`` for anything else.

    Such a setting is typed Any and stays null by default: Hydra takes a whole mapping in the place of null, and adds no
    keys to one that is there.
    """
    require(value is None or isinstance(value, dict), field_name, value, "a mapping such as {a: b}")
    return None if value is None else {str(key): str(item) for key, item in value.items()}


@dataclass
class ModelConfig:
    """Backbone. Without ``path`` a small Qwen3 is built from the sizes and trained from scratch."""

    name: str = MISSING
    path: str | None = None
    """Hub id or local folder of a pretrained backbone."""
    revision: str | None = None
    """Commit or tag on the hub."""
    max_length: int = 2048
    """Tokens a sequence; longer rows are dropped and counted."""
    vocab_size: int = 2048
    hidden_size: int = 128
    layers: int = 3
    heads: int = 4
    freeze_layers: int = 0
    """Lowest transformer layers (and the embedding) that are not trained."""
    gradient_checkpointing: Any = "auto"
    """true, false, or ``auto``: only where an estimate says that the activations do not fit the memory at hand."""
    lora_rank: int = 0
    """0 trains all weights; above 0 trains LoRA adapters of this rank and the head."""
    lora_alpha: int = 16
    lora_dropout: float = 0.0

    def __post_init__(self) -> None:
        require(self.heads >= 1, "model.heads", self.heads, "1 or more")
        require(self.layers >= 1, "model.layers", self.layers, "1 or more")
        require(self.vocab_size >= 300, "model.vocab_size", self.vocab_size, "at least 300: 256 bytes and the controls")
        require(self.max_length >= 16, "model.max_length", self.max_length, "at least 16 tokens")
        require(
            self.hidden_size % self.heads == 0 < self.hidden_size,
            "model.hidden_size",
            self.hidden_size,
            "a multiple of model.heads",
        )
        require(self.freeze_layers >= 0, "model.freeze_layers", self.freeze_layers, "0 or more layers")
        require(
            self.gradient_checkpointing == "auto" or isinstance(self.gradient_checkpointing, bool),
            "model.gradient_checkpointing",
            self.gradient_checkpointing,
            "auto, true or false",
        )
        require(self.lora_alpha >= 1, "model.lora_alpha", self.lora_alpha, "1 or more")
        require(self.lora_rank >= 0, "model.lora_rank", self.lora_rank, "0 (off) or a positive rank")
        require(0 <= self.lora_dropout < 1, "model.lora_dropout", self.lora_dropout, "a rate in [0, 1)")
        require(
            self.path is not None or not self.lora_rank,
            "model.lora_rank",
            self.lora_rank,
            "0 for a model without model.path: adapters need pretrained weights to adapt",
        )


@dataclass
class HeadConfig:
    """``auto`` takes the head of the loss: pairwise for cls, scalar for ranking."""

    name: str = "auto"

    def __post_init__(self) -> None:
        one_of("head.name", self.name, ("auto", *HEADS))


@dataclass
class PromptConfig:
    """Where the prompt has the criteria: before the conversation, or after it."""

    order: str = "criteria_first"

    def __post_init__(self) -> None:
        one_of("prompt.order", self.order, PROMPT_ORDERS)


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
class NoiseConfig:
    """Perturbation of the criteria in training, drawn anew per sample and epoch."""

    kind: str = "none"

    def __post_init__(self) -> None:
        one_of("noise.kind", self.kind, NOISES)


@dataclass
class DirectionConfig:
    """Whose criteria condition a training comparison."""

    kind: str = "random"

    def __post_init__(self) -> None:
        one_of("direction.kind", self.kind, DIRECTIONS)


@dataclass
class DataConfig:
    """Where preferences come from. Sizes are preferences; 0 means all there are."""

    name: str = "simulation"
    root: str = "${oc.env:CRM_DATA_ROOT,../shared/data}"
    """Folder of the public sets."""
    path: str | None = None
    """File or folder of one's own, a dataset of a hub (hf://owner/name), or a prepared one (data=dataset)."""
    columns: Any = None
    """For data=table: our fields and the columns they are in, such as {prompt: question}."""
    winners: Any = None
    """For data=table: what the winner's column holds, and which of a, b, tie it means, such as {first: a}."""
    train: int = 0
    validation: int = 0
    suite: int = 0
    max_words: int = 0
    """Words kept of a document or a response where the source says so; 0 keeps all."""
    validation_fraction: float = 0.1
    """Share of prompts, for sources without a split of their own."""
    test_fraction: float = 0.1
    strict: bool = True
    """Stop at the first malformed row; false keeps the valid ones and counts the others."""
    seed: int = 1
    """Seed of simulation, split and subsampling; apart from the seed of training."""

    def __post_init__(self) -> None:
        one_of("data.name", self.name, DATA_SOURCES)
        for name in ("train", "validation", "suite", "max_words"):
            require(getattr(self, name) >= 0, f"data.{name}", getattr(self, name), "0 or more")
        for name in ("validation_fraction", "test_fraction"):
            require(0 <= getattr(self, name) < 0.5, f"data.{name}", getattr(self, name), "a share in [0, 0.5)")
        needs_path = self.name == "dataset" or self.name in OWN
        require(not needs_path or bool(self.path), "data.path", self.path, f"a file or folder for data={self.name}")
        self.columns, self.winners = (mapping(f"data.{name}", getattr(self, name)) for name in ("columns", "winners"))
        if self.name != "table":
            for name in ("columns", "winners"):
                require(not getattr(self, name), f"data.{name}", getattr(self, name), "nothing, but for data=table")
        for side in (self.winners or {}).values():
            one_of("data.winners", side, SIDES)


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
    """Comparisons a device and forward pass."""
    accumulate: int = 32
    """Forward passes an optimizer step."""
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
    tokens: int = 8192
    """Most tokens of a forward pass on one device; an optimizer step takes as many passes as it needs. Not of padded
    batches, which have ``trainer.batch_size`` rows."""

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


@dataclass
class SuiteConfig:
    """Which suites to evaluate: the named ones, or every base of the data times the noises."""

    names: list[str] = field(default_factory=list)
    noises: list[str] = field(default_factory=lambda: ["none"])

    def __post_init__(self) -> None:
        for noise in self.noises:
            one_of("suite.noises", noise, NOISES)


@dataclass
class BankConfig:
    """Responses of many LLMs to the same queries."""

    name: str = MISSING
    path: str | None = None
    """Folder of a saved bank; null simulates one."""
    baseline: str | None = None
    """LLM that the others are compared with; null takes the bank's own."""
    queries_per_topic: int = 20
    seed: int = 1

    def __post_init__(self) -> None:
        require(self.queries_per_topic >= 1, "bank.queries_per_topic", self.queries_per_topic, "1 or more")
