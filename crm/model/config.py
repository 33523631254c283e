"""Settings of the model: backbone, head, prompt, batches. In: composed values. Out: checked ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from omegaconf import MISSING

from crm.config import one_of, require
from crm.io.installed import check_known
from crm.model.batching.forest import BATCHINGS
from crm.model.encoding import PROMPT_ORDERS
from crm.model.heads import HEADS


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
        check_known("head.name", self.name, ("auto", *HEADS), "heads")


@dataclass
class PromptConfig:
    """Where the prompt has the criteria: before the conversation, or after it."""

    order: str = "criteria_first"

    def __post_init__(self) -> None:
        one_of("prompt.order", self.order, PROMPT_ORDERS)


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
