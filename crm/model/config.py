"""Settings of the model: backbone, head, batches."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from omegaconf import MISSING

from crm.config import Settings, setting
from crm.io.installed import check_known
from crm.model.heads import HEADS, KEPT, WIDTH, head_named
from crm.model.manifest import MANIFEST, read_manifest


def training_config(checkpoint: str | Path | None) -> dict[str, Any]:
    """The configuration that a model folder, run folder or hub's model was trained with; empty where there is none."""
    if not checkpoint:
        return {}
    folder = _located(str(checkpoint))
    for place in (folder, folder / "model"):
        try:
            return read_manifest(place).get("config") or {}
        except ValueError:  # whoever loads the model names what is wrong
            continue
    return {}


@lru_cache(maxsize=4)
def _located(checkpoint: str) -> Path:
    """Its folder; a hub that does not answer is asked once."""
    from crm.model.folders import located  # and with it the client of the hub

    try:
        return located(checkpoint)
    except ValueError:
        return Path(checkpoint)


log = logging.getLogger(__name__)
MOST_TOKENS = 2048
"""Of a sequence, where nothing else is asked for."""
SIZES = {"vocab_size": 2048, "hidden_size": 128, "layers": 3, "heads": 4}
"""Of a model that is trained from scratch, where none are given."""


@dataclass
class ModelConfig(Settings, group="model"):
    """Backbone. Without ``path`` a small Qwen3 is built from the sizes and trained from scratch."""

    name: str = MISSING
    path: str | None = None
    """Hub id or local folder of a pretrained backbone."""
    revision: str | None = None
    """Commit or tag on the hub."""
    max_length: int = setting(0, at_least=0, zero="2048, or all positions of a smaller model", unit="tokens")
    """Tokens a sequence; longer rows are dropped and counted."""
    vocab_size: int | None = setting(None, at_least=300, why="256 bytes and the controls")
    """This and the next three are sizes of a model trained from scratch; null with ``path``, which has its own."""
    hidden_size: int | None = setting(None, at_least=1)
    layers: int | None = setting(None, at_least=1)
    heads: int | None = setting(None, at_least=1)
    use_layers: int | None = setting(None, at_least=1, why="null keeps all layers of the backbone")
    """How many of the lowest transformer layers are kept; the rest is dropped when the model is loaded. null: all."""
    freeze_layers: int = setting(0, at_least=0)
    """Lowest transformer layers (and the embedding) that are not trained."""
    kept_states: str = setting("float32", one_of=("off", "float32", "bfloat16"))
    """In which precision to store what frozen layers give, so that they are run once for each sequence."""
    gradient_checkpointing: Any = "auto"
    """true, false, or ``auto``: only where an estimate says that the activations do not fit the memory at hand."""
    lora_rank: int = setting(0, at_least=0, zero="off")
    """0 trains all weights; above 0 trains LoRA adapters of this rank and the head."""
    lora_alpha: int = setting(16, at_least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.path or "").startswith("~"):
            self.path = str(Path(self.path).expanduser())  # type: ignore[arg-type]
        if self.path and (run := Path(self.path, "model", MANIFEST)).is_file():
            self.path = str(run.parent)
        self.max_length = self.max_length or self._most_tokens()
        for name, size in SIZES.items():
            setattr(self, name, None if self.path is not None else getattr(self, name) or size)
        whole = self.path is not None or self.hidden_size % self.heads == 0  # type: ignore[operator]
        self.require(whole, "hidden_size", "a multiple of model.heads")
        known = self.gradient_checkpointing == "auto" or isinstance(self.gradient_checkpointing, bool)
        self.require(known, "gradient_checkpointing", "auto, true or false")
        self.require(
            self.path is not None or not self.lora_rank,
            "lora_rank",
            "0 for a model without model.path: adapters need pretrained weights to adapt",
        )

    def _most_tokens(self) -> int:
        """Of a folder here with fewer positions, these."""
        about = Path(self.path or "", "config.json")
        positions = json.loads(about.read_text("utf-8")).get("max_position_embeddings") if about.is_file() else None
        if positions and positions < MOST_TOKENS:
            log.info("model.max_length=%d: %s has no more positions", positions, self.path)
        return min(positions or MOST_TOKENS, MOST_TOKENS)


@dataclass
class HeadConfig(Settings, group="head"):
    """``auto`` takes the head of the loss: pairwise for cls, scalar for ranking."""

    name: str = "auto"
    kept: int | None = setting(None, at_least=1)
    """Of the late head: states that it keeps of a response."""
    width: int | None = setting(None, at_least=1)
    """Of the late head: numbers of each; a score is the product of two vectors of ``kept`` x ``width``."""
    dropout: float = setting(0.0, at_least=0, below=1)
    """Of the late head: share of what it sees of a response that a step leaves out; for few votes, 0.5."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_known("head.name", self.name, ("auto", *HEADS), "heads")
        if self.name == "auto" or not head_named(self.name).apart:
            for name, unset in (("kept", None), ("width", None), ("dropout", 0)):
                allowed = f"{unset or 'null'} with head={self.name}, which pools over no text; use head=late"
                self.require(getattr(self, name) == unset, name, allowed)
            return
        self.kept, self.width = self.kept or KEPT, self.width or WIDTH


@dataclass
class BatchingConfig(Settings, group="batching"):
    """How comparisons become forward passes; the numbers that come out are the same."""

    name: str = setting("tree", one_of=("tree", "padded"))
    """``padded``, or ``tree``: no padding, and common beginnings once."""
    tokens: int = setting(4096, at_least=1)
    """Most tokens of a forward pass on one device; an optimizer step takes as many passes as the first epoch needs, and
    draws of later epochs may exceed it a little."""
