"""Models of the contests, of one size and seed: our `RewardModel`, and stock classes that share its weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    LlamaConfig,
    PretrainedConfig,
    Qwen3Config,
)

from bench.pairs import VOCABULARY
from crm.model.reward_model import RewardModel, build_score

PAD_ID = 0
FILLER_ID = VOCABULARY - 1
"""Stands in no text: stock pooling takes every token equal to its pad id for padding, even the last of a response."""


@dataclass(frozen=True, slots=True)
class Size:
    """Shape of a decoder, in Qwen3's words."""

    hidden: int
    layers: int
    heads: int
    key_value_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int = VOCABULARY
    tied: bool = True


TOY = Size(hidden=256, layers=4, heads=4, key_value_heads=2, head_dim=64, intermediate=768)
SMALL = Size(hidden=64, layers=3, heads=4, key_value_heads=2, head_dim=16, intermediate=192)
"""Of the parity gate: grouped queries, and small enough for hundreds of gradients."""
QWEN3 = {
    "0.6B": Size(1024, 28, 16, 8, 128, 3072, vocabulary=151_936),
    "1.7B": Size(2048, 28, 16, 8, 128, 6144, vocabulary=151_936),
    "4B": Size(2560, 36, 32, 8, 128, 9728, vocabulary=151_936),
    "8B": Size(4096, 36, 32, 8, 128, 12_288, vocabulary=151_936, tied=False),
}
"""Shapes of the published Qwen3 models."""
PUBLISHED_RATES = {"0.6B": 53_900, "1.7B": 32_800, "4B": 15_900, "8B": 10_200}
"""Tokens a second of fine-tuning them on an H100 in bfloat16 (docs.surogate.ai/reference/benchmarks)."""


def config_of(size: Size, architecture: str = "qwen3", pad_id: int = PAD_ID) -> PretrainedConfig:
    """The transformers config of a size; ``architecture`` is ``qwen3`` or ``llama``."""
    shape: dict[str, Any] = {
        "vocab_size": size.vocabulary,
        "hidden_size": size.hidden,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
        "num_key_value_heads": size.key_value_heads,
        "head_dim": size.head_dim,
        "intermediate_size": size.intermediate,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": size.tied,
        "pad_token_id": pad_id,
        # Large enough that every layer has its say: two comparisons then differ by far more than rounding does.
        "initializer_range": size.hidden**-0.5,
    }
    return Qwen3Config(**shape) if architecture == "qwen3" else LlamaConfig(**shape)


def build_reward_model(
    size: Size,
    head: str,
    seed: int,
    *,
    architecture: str = "qwen3",
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    prunes: bool = True,
    pad_id: int = PAD_ID,
) -> RewardModel:
    """Our model with random weights, in training mode, on ``device``; the embedding of ``pad_id`` is never trained."""
    config = config_of(size, architecture, pad_id)
    config.use_cache = False
    config._attn_implementation = "sdpa"
    with torch.random.fork_rng(), torch.device(device):
        torch.manual_seed(seed)
        backbone = AutoModel.from_config(config, dtype=dtype)  # type: ignore[no-untyped-call]
    score = build_score(head, size.hidden, seed)
    with torch.no_grad():
        # The two rows of a fresh span head are equal, which would hide an exchange of them.
        if isinstance(score, nn.Linear):
            score.weight.normal_(0.0, size.hidden**-0.5, generator=torch.Generator().manual_seed(seed + 1))
    model = RewardModel(backbone, score.to(dtype), head).to(device)
    model.prunes = model.prunes and prunes
    return model.train()


def twin_of_ours(model: RewardModel, *, prunes: bool) -> RewardModel:
    """Another `RewardModel` over the same parameters, with or without its last layer pruned."""
    with torch.device("meta"):
        backbone = type(model.backbone)(_copied(model))
    _share(backbone, model.backbone)
    twin = RewardModel(backbone, model.score, model.head)
    twin.prunes = twin.prunes and prunes
    return twin.train()


def stock_twin(model: RewardModel, *, checkpointing: bool = False) -> Any:
    """The stock classification model over the same parameters; SDPA attention, as transformers chooses by itself."""
    config = _copied(model)
    config.num_labels = model.score.out_features
    auto = AutoModelForTokenClassification if model.head == "pairwise_span" else AutoModelForSequenceClassification
    with torch.device("meta"):
        twin = auto.from_config(config)  # type: ignore[no-untyped-call]
    _share(twin.base_model, model.backbone)
    twin.score.weight = model.score.weight
    if twin.score.bias is not None:
        twin.score.bias = nn.Parameter(torch.zeros(2, device=model.device), requires_grad=False)
    if checkpointing:
        twin.gradient_checkpointing_enable({"use_reentrant": False})
    return twin.train()


def _copied(model: RewardModel) -> Any:
    config = type(model.backbone.config).from_dict(model.backbone.config.to_dict())
    config._attn_implementation = "sdpa"
    return config


def _share(backbone: Any, original: Any) -> None:
    """Let a backbone without weights read those of ``original``; tables of rotations are no weights and made anew."""
    backbone.load_state_dict(dict(original.named_parameters()), assign=True)
    device = next(original.parameters()).device
    backbone.rotary_emb = type(backbone.rotary_emb)(backbone.config).to(device)
