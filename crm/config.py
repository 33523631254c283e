"""Settings of every entry point, typed. In: what Hydra composed from ``conf/``. Out: checked dataclasses.

A typo or a wrong type fails while Hydra composes; ranges and combinations fail in ``__post_init__``, which runs once,
in `checked`. Below the entry layer no function sees these classes: they take plain arguments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf

from crm.data.comparisons import CRITERIA_MODES
from crm.data.direction import DIRECTIONS, TIES
from crm.data.encoding import HEADS
from crm.data.noise import NOISES

DATA_SOURCES = (
    "simulation",
    "records",
    "eval_rows",
    "train_rows",
    "summeval",
    "dsp",
    "concise_verbose",
)
LOSSES = {"cls": "pairwise", "ranking": "scalar"}
"""The losses of the paper and the head each selects when ``head=auto``."""
PRECISIONS = ("32-true", "bf16-mixed", "bf16-true")
LOGGERS = ("csv", "wandb", "tensorboard")


def _require(condition: bool, field_name: str, value: Any, allowed: str) -> None:
    if not condition:
        raise ValueError(f"{field_name}={value!r}: expected {allowed}")


def _one_of(field_name: str, value: str, allowed: Sequence[str]) -> None:
    _require(value in allowed, field_name, value, f"one of {', '.join(allowed)}")


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
    gradient_checkpointing: bool = False
    lora_rank: int = 0
    """0 trains all weights; above 0 trains LoRA adapters of this rank and the head."""
    lora_alpha: float = 16.0
    lora_dropout: float = 0.0

    def __post_init__(self) -> None:
        _require(self.max_length >= 16, "model.max_length", self.max_length, "at least 16 tokens")
        _require(self.hidden_size % self.heads == 0, "model.hidden_size", self.hidden_size, "a multiple of model.heads")
        _require(self.freeze_layers >= 0, "model.freeze_layers", self.freeze_layers, "0 or more layers")
        _require(self.lora_rank >= 0, "model.lora_rank", self.lora_rank, "0 (off) or a positive rank")
        _require(0 <= self.lora_dropout < 1, "model.lora_dropout", self.lora_dropout, "a rate in [0, 1)")
        _require(
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
        _one_of("head.name", self.name, ("auto", *HEADS))


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
        _one_of("loss.name", self.name, tuple(LOSSES))
        _one_of("loss.ties", self.ties, TIES)
        _require(0 <= self.label_smoothing < 1, "loss.label_smoothing", self.label_smoothing, "a share in [0, 1)")
        _require(self.centre_scores >= 0, "loss.centre_scores", self.centre_scores, "a weight of 0 or more")


@dataclass
class NoiseConfig:
    """Perturbation of the criteria in training, drawn anew per sample and epoch."""

    kind: str = "none"

    def __post_init__(self) -> None:
        _one_of("noise.kind", self.kind, NOISES)


@dataclass
class DirectionConfig:
    """Whose criteria condition a training comparison."""

    kind: str = "random"

    def __post_init__(self) -> None:
        _one_of("direction.kind", self.kind, DIRECTIONS)


@dataclass
class DataConfig:
    """Where preferences come from. Sizes are preferences; 0 means all there are."""

    name: str = MISSING
    source: str = "simulation"
    root: str = "${oc.env:CRM_DATA_ROOT,../shared/data}"
    """Folder of the public sets."""
    path: str | None = None
    """JSONL file of one's own (sources records, eval_rows, train_rows)."""
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
        _one_of("data.source", self.source, DATA_SOURCES)
        for name in ("train", "validation", "suite", "max_words"):
            _require(getattr(self, name) >= 0, f"data.{name}", getattr(self, name), "0 or more")
        for name in ("validation_fraction", "test_fraction"):
            _require(0 <= getattr(self, name) < 0.5, f"data.{name}", getattr(self, name), "a share in [0, 0.5)")
        needs_path = self.source in ("records", "eval_rows", "train_rows")
        _require(not needs_path or bool(self.path), "data.path", self.path, f"a JSONL file for data={self.source}")


@dataclass
class OptimizerConfig:
    """AdamW with a linear warm-up and a cosine to zero."""

    name: str = "adamw"
    lr: float = 1e-5
    weight_decay: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    warmup_fraction: float = 0.03
    """Share of all optimizer steps."""
    clip: float = 1.0
    """Gradient norm at which gradients are clipped; 0 is off."""

    def __post_init__(self) -> None:
        _one_of("optimizer.name", self.name, ("adamw",))
        _require(self.lr > 0, "optimizer.lr", self.lr, "a positive rate")
        _require(0 <= self.warmup_fraction < 1, "optimizer.warmup_fraction", self.warmup_fraction, "a share in [0, 1)")
        _require(self.clip >= 0, "optimizer.clip", self.clip, "0 (off) or a positive norm")


@dataclass
class TrainerConfig:
    """Devices, precision and the length of a run."""

    name: str = MISSING
    accelerator: str = "cpu"
    devices: int = 1
    """Processes on this machine, one a device."""
    nodes: int = 1
    strategy: str = "auto"
    precision: str = "32-true"
    """Of arithmetic; weights and optimizer stay float32 in every ``-mixed`` precision."""
    threads: int = 0
    """CPU threads a process; 0 leaves torch's default."""
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
            _require(getattr(self, name) >= 1, f"trainer.{name}", getattr(self, name), "1 or more")
        for name in ("threads", "max_steps", "validate_every", "patience", "save_every"):
            _require(getattr(self, name) >= 0, f"trainer.{name}", getattr(self, name), "0 or more")
        _one_of("trainer.strategy", self.strategy, ("auto", "ddp", "fsdp"))
        _one_of("trainer.precision", self.precision, PRECISIONS)


@dataclass
class LoggerConfig:
    """CSV is always written; W&B and TensorBoard come on top."""

    kind: str = "csv"
    project: str = "crm"
    name: str | None = None

    def __post_init__(self) -> None:
        _one_of("logger.kind", self.kind, LOGGERS)


@dataclass
class SuiteConfig:
    """Which suites to evaluate: the named ones, or every base of the data times the noises."""

    names: list[str] = field(default_factory=list)
    noises: list[str] = field(default_factory=lambda: ["none"])

    def __post_init__(self) -> None:
        for noise in self.noises:
            _one_of("suite.noises", noise, NOISES)


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


@dataclass
class TrainConfig:
    """``train.py``."""

    model: ModelConfig = field(default_factory=ModelConfig)
    head: HeadConfig = field(default_factory=HeadConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    noise: NoiseConfig = field(default_factory=NoiseConfig)
    direction: DirectionConfig = field(default_factory=DirectionConfig)
    data: DataConfig = field(default_factory=DataConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    trainer: TrainerConfig = field(default_factory=TrainerConfig)
    logger: LoggerConfig = field(default_factory=LoggerConfig)
    criteria: str = "own"
    """``none`` shows one generic criterion instead of the user's: the criteria-blind control."""
    seed: int = 42
    run_dir: str = "${hydra:runtime.output_dir}"
    resume: bool = False
    """Go on from the last checkpoint in ``run_dir``."""

    def __post_init__(self) -> None:
        _one_of("criteria", self.criteria, CRITERIA_MODES)
        if self.head.name == "auto":
            self.head.name = LOSSES[self.loss.name]
        if self.loss.centre_scores and self.head.name == "pairwise":
            raise ValueError(
                f"loss.centre_scores={self.loss.centre_scores} with head=pairwise: that head has no scores to centre; "
                "use head=scalar or head=pairwise_span, or loss.centre_scores=0"
            )


@dataclass
class EvaluateConfig:
    """``evaluate.py``."""

    checkpoint: str = MISSING
    """Folder written by training."""
    suite: SuiteConfig = field(default_factory=SuiteConfig)
    data: DataConfig = field(default_factory=DataConfig)
    criteria: str = "own"
    criteria_rendering: str = "list"
    """``per_character`` renders one bullet a character, a defect of an earlier evaluator, to measure its effect."""
    predictions: str | None = None
    """Folder of prediction files, kept between runs; null means ``predictions`` beside the checkpoint."""
    batch_size: int = 64
    precision: str = "32-true"
    threads: int = 0
    seed: int = 42
    progress: bool = True
    run_dir: str = "${hydra:runtime.output_dir}"

    def __post_init__(self) -> None:
        _one_of("criteria", self.criteria, CRITERIA_MODES)
        _one_of("criteria_rendering", self.criteria_rendering, ("list", "per_character"))
        _one_of("precision", self.precision, PRECISIONS[:2])
        _require(self.batch_size >= 1, "batch_size", self.batch_size, "1 or more")


@dataclass
class LeaderboardConfig:
    """``leaderboard.py``."""

    checkpoint: str = MISSING
    bank: BankConfig = field(default_factory=BankConfig)
    topics: list[str] = field(default_factory=list)
    """Topics to rank on; empty means all."""
    criteria: list[str] = field(default_factory=list)
    """What the user cares about; empty means what most people would like."""
    sort: str = "win_rate"
    predictions: str | None = None
    """Folder of score files, kept between runs; null means ``predictions`` beside the checkpoint."""
    batch_size: int = 64
    precision: str = "32-true"
    threads: int = 0
    seed: int = 42
    progress: bool = True
    run_dir: str = "${hydra:runtime.output_dir}"

    def __post_init__(self) -> None:
        _one_of("precision", self.precision, PRECISIONS[:2])
        _require(self.batch_size >= 1, "batch_size", self.batch_size, "1 or more")
        for criterion in self.criteria:
            _require(bool(criterion.strip()), "criteria", criterion, "text")


Config = TypeVar("Config", TrainConfig, EvaluateConfig, LeaderboardConfig)
SCHEMAS: dict[str, type] = {"train": TrainConfig, "evaluate": EvaluateConfig, "leaderboard": LeaderboardConfig}


def register() -> None:
    """Make the schemas known to Hydra as ``<entry point>_schema``; calling it again changes nothing."""
    for name, schema in SCHEMAS.items():
        ConfigStore.instance().store(name=f"{name}_schema", node=schema)


def config_dir() -> Path:
    """Folder of the configuration: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


def compose(name: str, overrides: Sequence[str], run_dir: Path) -> Any:
    """The checked configuration of an entry point (a key of `SCHEMAS`), as its command line would give it."""
    register()
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        composed = hydra_compose(name, overrides=[*overrides, f"run_dir='{run_dir}'"])
    return checked(composed, SCHEMAS[name])


def checked(composed: DictConfig, schema: type[Config]) -> Config:
    """Resolve interpolations and run every check. Raises ``ValueError`` naming field, value and what is allowed."""
    config = OmegaConf.to_object(composed)
    assert isinstance(config, schema), f"{type(config)} composed where {schema} was expected"
    return config
