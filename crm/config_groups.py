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
from crm.data.noise import NOISES
from crm.data.profiles import PROFILES
from crm.data.sources.catalogue import OWN, SOURCES
from crm.leaderboard.public_banks import FOLDERS as PUBLIC_BANKS
from crm.schema import MAX_CRITERIA, SIDES

DATA_SOURCES = ("simulation", "dataset", "mixture", "summeval_aspects", *SOURCES)
MIXED = tuple(name for name in DATA_SOURCES if name not in ("simulation", "dataset", "mixture", *OWN))
LOSSES = {"cls": "pairwise", "ranking": "scalar"}
"""The losses of the paper and the head each selects when ``head=auto``."""
PRECISIONS = ("32-true", "bf16-mixed")


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
    kept_states: str = "memory"
    """Where to keep what frozen layers give, so that they are run once: memory, disk (the run folder), or off."""
    kept_states_gb: float = 0.0
    """Room for that in 10^9 bytes, shared by the processes of a machine; 0 takes half of what is free."""
    kept_states_dtype: str = "float32"
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
        one_of("model.kept_states", self.kept_states, ("off", "memory", "disk"))
        room = self.kept_states_gb
        require(0 <= room < math.inf, "model.kept_states_gb", room, "0 (half of what is free) or GB")
        one_of("model.kept_states_dtype", self.kept_states_dtype, ("float32", "bfloat16"))
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
    sources: list[str] = field(default_factory=list)
    """For data=mixture: the public sets to put together; the sizes below are then those of every one of them."""
    held_out_topics: list[str] = field(default_factory=list)
    """Topics, or broad topics of criteria, that make suite H and are in no other part; of a mixture as source.topic."""
    columns: Any = None
    """For data=table: our fields and the columns they are in, such as {prompt: question}."""
    winners: Any = None
    """For data=table: what the winner's column holds, and which of a, b, tie it means, such as {first: a}."""
    train: int = 0
    validation: int = 0
    suite: int = 0
    max_words: int = 0
    """Words kept of a response or a user's post (of the document, in SummEval); 0 keeps all."""
    validation_fraction: float = 0.1
    """Share of prompts, for sources without a split of their own."""
    test_fraction: float = 0.1
    strict: bool = True
    """Stop at the first malformed row; false keeps the valid ones and counts the others."""
    seed: int = 1
    """Seed of simulation, split and subsampling; apart from the seed of training."""
    profile: str = "none"
    """For data=personalized_rewardbench: which of the user's earlier posts are the criteria. ``all``; the ``first`` as
    the file has them; or the most relevant to the question by ``bm25`` or ``embedding``."""
    profile_posts: int = 10
    """Posts told at most, but for ``all``."""
    profile_model: str | None = None
    """Folder or hub id of a sentence-transformers model for ``embedding``; TF-IDF where null."""
    oracle_rubric: bool = False
    """For data=personalized_rewardbench: tell the judge the rubric that the pairs were made by, its upper bound."""

    def __post_init__(self) -> None:
        one_of("data.name", self.name, DATA_SOURCES)
        for name in ("train", "validation", "suite", "max_words"):
            require(getattr(self, name) >= 0, f"data.{name}", getattr(self, name), "0 or more")
        for name in ("validation_fraction", "test_fraction"):
            require(0 <= getattr(self, name) < 0.5, f"data.{name}", getattr(self, name), "a share in [0, 0.5)")
        needs_path = self.name == "dataset" or self.name in OWN
        require(not needs_path or bool(self.path), "data.path", self.path, f"a file or folder for data={self.name}")
        self.columns, self.winners = (mapping(f"data.{name}", getattr(self, name)) for name in ("columns", "winners"))
        require(
            (self.name == "mixture") == bool(self.sources), "data.sources", self.sources, "names, for data=mixture only"
        )
        for source in self.sources:
            one_of("data.sources", source, MIXED)
        if self.name != "table":
            for name in ("columns", "winners"):
                require(not getattr(self, name), f"data.{name}", getattr(self, name), "nothing, but for data=table")
        for side in (self.winners or {}).values():
            one_of("data.winners", side, SIDES)
        self._check_profile()

    def _check_profile(self) -> None:
        one_of("data.profile", self.profile, PROFILES)
        posts = self.profile_posts
        require(1 <= posts <= MAX_CRITERIA, "data.profile_posts", posts, f"1 to {MAX_CRITERIA}")
        personal, told = self.name == "personalized_rewardbench", self.profile != "none"
        only = "with another source than data=personalized_rewardbench"
        require(personal or not told, "data.profile", self.profile, f"none {only}")
        require(personal or not self.oracle_rubric, "data.oracle_rubric", self.oracle_rubric, f"false {only}")
        require(
            self.profile == "embedding" or not self.profile_model,
            "data.profile_model",
            self.profile_model,
            "null but for data.profile=embedding",
        )
        require(
            not (told and self.oracle_rubric),
            "data.profile",
            self.profile,
            "none with data.oracle_rubric=true: the rubric is told instead",
        )

    def title(self) -> str:
        """The source's name, and what its judge is told where that is a choice."""
        if self.name != "personalized_rewardbench":
            return self.name
        shown = "all posts" if self.profile == "all" else f"{self.profile} {self.profile_posts} posts"
        profile = "no profile" if self.profile == "none" else f"profile {shown}"
        return f"{self.name} (rubric {'shown' if self.oracle_rubric else 'withheld'}, {profile})"


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

    name: str = "simulated"
    """``simulated``, ``folder`` or a public bank."""
    path: str | None = None
    """For bank=folder: where it was saved."""
    root: str = "${oc.env:CRM_DATA_ROOT,../shared/data}"
    """Folder of the public banks."""
    baseline: str | None = None
    """LLM that the others are compared with; null takes the bank's own."""
    queries_per_topic: int = 20
    """Of the simulated bank."""
    without: list[str] = field(default_factory=list)
    """Public banks whose queries are left out: those that a model has met in training."""
    queries: int = 0
    """At most so many, drawn in turns over topics; 0 takes all."""
    max_words: int = 0
    """Words kept of a response; 0 keeps all."""
    seed: int = 1
    """Of the simulation, and of which queries are drawn."""

    def __post_init__(self) -> None:
        require(self.queries_per_topic >= 1, "bank.queries_per_topic", self.queries_per_topic, "1 or more")
        for name in ("queries", "max_words"):
            require(getattr(self, name) >= 0, f"bank.{name}", getattr(self, name), "0 (all) or more")
        one_of("bank.name", self.name, ("simulated", "folder", *PUBLIC_BANKS))
        require(self.path is None or self.name == "folder", "bank.path", self.path, "bank=folder with a path")
        require(self.path is not None or self.name != "folder", "bank.path", self.path, "a folder that holds a bank")
        for name in self.without:
            one_of("bank.without", name, tuple(PUBLIC_BANKS))
