"""Settings of every entry point, typed. In: what Hydra composed from ``conf/``. Out: checked dataclasses.

A typo or a wrong type fails while Hydra composes; ranges and combinations fail in ``__post_init__``, which runs once,
in `checked`. Below the entry layer no function sees these classes: they take plain arguments.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from crm.config_bank import BankBuildConfig
from crm.config_groups import (
    LOSSES,
    PRECISIONS,
    BankConfig,
    DataConfig,
    DirectionConfig,
    HeadConfig,
    LossConfig,
    ModelConfig,
    NoiseConfig,
    PromptConfig,
    SuiteConfig,
    one_of,
    require,
)
from crm.config_judges import EndpointConfig, JudgeConfig
from crm.config_prepare import PrepareConfig
from crm.config_training import BatchingConfig, LoggerConfig, OptimizerConfig, TrainerConfig
from crm.data.comparisons import CRITERIA_MODES

__all__ = ["BankConfig", "DataConfig", "EvaluateConfig", "LeaderboardConfig", "PrepareConfig", "TrainConfig", "compose"]


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
        if self.loss.centre_scores and self.head.name == "pairwise":
            raise ValueError(
                f"loss.centre_scores={self.loss.centre_scores} with head=pairwise: that head has no scores to centre; "
                "use head=scalar or head=pairwise_span, or loss.centre_scores=0"
            )


@dataclass
class JudgingConfig:
    """What `evaluate.py` and `leaderboard.py` share: how a judge is run."""

    predictions: str | None = None
    """Folder of prediction files, kept between runs; null means ``predictions`` beside the checkpoint, and
    ``outputs/predictions`` for a judge that has none."""
    batch_size: int = 64
    """Comparisons of a padded forward pass; packed ones have ``batching.tokens``."""
    batching: BatchingConfig = field(default_factory=BatchingConfig)
    devices: int = 1
    """Processes on this machine, one a GPU, or on the CPU where there is none; each reads its share."""
    nodes: int = 1
    precision: str = "32-true"
    threads: int = 0
    seed: int = 42
    progress: bool = True
    run_dir: str = "${hydra:runtime.output_dir}"

    def __post_init__(self) -> None:
        one_of("precision", self.precision, PRECISIONS)
        for name in ("batch_size", "devices", "nodes"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "1 or more")
        require(self.threads >= 0, "threads", self.threads, "0 (torch's default) or more")


@dataclass
class AnyJudgeConfig(JudgingConfig):
    """What entry points share that take any judge."""

    judge: JudgeConfig = field(default_factory=JudgeConfig)
    checkpoint: str | None = None
    """Folder written by training, which ``judge=crm`` reads; other judges have no use for it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.judge.name == "crm":
            require(bool(self.checkpoint), "checkpoint", self.checkpoint, "a folder written by training for judge=crm")


@dataclass
class EvaluateConfig(AnyJudgeConfig):
    """``evaluate.py``."""

    suite: SuiteConfig = field(default_factory=SuiteConfig)
    data: DataConfig = field(default_factory=DataConfig)
    criteria: str = "own"
    criteria_rendering: str = "list"
    """``per_character`` renders one bullet a character, a defect of an earlier evaluator, to measure its effect."""

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("criteria", self.criteria, CRITERIA_MODES)
        one_of("criteria_rendering", self.criteria_rendering, ("list", "per_character"))


@dataclass
class LeaderboardConfig(AnyJudgeConfig):
    """``leaderboard.py``."""

    bank: BankConfig = field(default_factory=BankConfig)
    topics: list[str] = field(default_factory=list)
    """Topics to rank on; empty means all."""
    criteria: list[str] = field(default_factory=list)
    """What the user cares about; empty means what most people would like."""
    sort: str = "win_rate"
    settle_top: int = 0
    """Score only until it is known which models are the first so many, the baseline among them; 0 scores everything."""
    settle_confidence: float = 0.95
    """Probability, at least, that the set found by ``settle_top`` is the one that scoring everything would give."""
    bank_states_gb: float = 0.0
    """Files, in 10^9 bytes, of what a criteria-last model makes of the bank's responses, for the next user; 0: none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.settle_top >= 0, "settle_top", self.settle_top, "0 (score everything) or more")
        require(0 < self.settle_confidence < 1, "settle_confidence", self.settle_confidence, "between 0 and 1")
        require(0 <= self.bank_states_gb < math.inf, "bank_states_gb", self.bank_states_gb, "0 (keep none) or more")
        require(
            not self.settle_top or self.devices * self.nodes == 1,
            "settle_top",
            self.settle_top,
            "0 with several devices: a race goes on from what it has just read; use devices=1",
        )
        for criterion in self.criteria:
            require(bool(criterion.strip()), "criteria", criterion, "text")


@dataclass
class AppConfig(AnyJudgeConfig):
    """``app.py``."""

    bank: BankConfig = field(default_factory=BankConfig)
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 lets other machines in."""
    port: int = 7860
    places: int = 50
    """People whose leaderboards are made at a time; one more is asked to wait."""
    requests_per_minute: int = 600
    """Of one address."""
    bank_states_gb: float = 0.0
    """As in ``leaderboard.py``: the first person waits for the bank to be read, all others for their criteria alone."""
    additions: bool = True
    """Whether people may add a model by a file, or from the endpoint below."""
    endpoint: EndpointConfig = field(default_factory=EndpointConfig)
    """Server that may be asked for the responses of a model that is added."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require(1 <= self.port <= 65535, "port", self.port, "1 to 65535")
        require(self.places >= 1, "places", self.places, "1 or more")
        if self.endpoint.base_url or self.endpoint.model:
            self.endpoint.check("endpoint", str(self.endpoint.model))
        require(self.requests_per_minute >= 1, "requests_per_minute", self.requests_per_minute, "1 or more")
        require(0 <= self.bank_states_gb < math.inf, "bank_states_gb", self.bank_states_gb, "0 (keep none) or more")


Config = TypeVar("Config", TrainConfig, EvaluateConfig, LeaderboardConfig, PrepareConfig, AppConfig, BankBuildConfig)
SCHEMAS: dict[str, type] = {
    "train": TrainConfig,
    "evaluate": EvaluateConfig,
    "leaderboard": LeaderboardConfig,
    "prepare": PrepareConfig,
    "app": AppConfig,
    "bank": BankBuildConfig,
}


def register() -> None:
    """Make the schemas known to Hydra as ``<entry point>_schema``; calling it again changes nothing."""
    for name, schema in SCHEMAS.items():
        ConfigStore.instance().store(name=f"{name}_schema", node=schema)


def config_dir() -> Path:
    """Folder of the configuration: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


def compose(name: str, overrides: Sequence[str], run_dir: Path | None = None) -> Any:
    """The checked configuration of an entry point (a key of `SCHEMAS`), as its command line would give it.

    ``run_dir`` is for the entry points that write into a run folder, all but ``prepare``.
    """
    register()
    place = [f"run_dir='{run_dir}'"] if run_dir else []
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        composed = hydra_compose(name, overrides=[*overrides, *place])
    return checked(composed, SCHEMAS[name])


def checked(composed: DictConfig, schema: type[Config]) -> Config:
    """Resolve interpolations and run every check. Raises ``ValueError`` naming field, value and what is allowed.

    Hydra adds whatever is written with a leading ``+``, so that a typo there is found only here.
    """
    known = setting_names(schema)
    for name in setting_names(composed):
        require_known(name, known)
    config = OmegaConf.to_object(composed)
    assert isinstance(config, schema), f"{type(config)} composed where {schema} was expected"
    return config


def setting_names(settings: Any) -> list[str]:
    """Dotted names of all settings of a schema or of a composed configuration."""

    def walk(node: DictConfig, prefix: str) -> list[str]:
        names = []
        for key in map(str, node):
            names.append(f"{prefix}{key}")
            child = node._get_node(key)
            if isinstance(child, DictConfig) and is_dataclass(OmegaConf.get_type(child)):  # not a mapping of a user's
                names += walk(child, f"{prefix}{key}.")
        return names

    return walk(settings if isinstance(settings, DictConfig) else OmegaConf.structured(settings), "")


def require_known(name: str, known: Sequence[str]) -> None:
    """Raise ``ValueError`` with the nearest valid name, unless ``name`` is a setting."""
    if name not in known:
        raise ValueError(f"{name}: no such setting{nearest(name, known)}")


def nearest(name: str, names: Iterable[str]) -> str:
    """``; did you mean X?``, or nothing where no name is near."""
    near = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else ""
