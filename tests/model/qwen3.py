"""Qwen3's published sizes, and configurations in its shape."""

from __future__ import annotations

from typing import Any

from transformers import Qwen3Config

VOCABULARY, SIZE, KEY_HEADS = 151_936, 128, 8
PUBLISHED = {
    "0.6B": (1024, 3072, 16, 28, True, 596_049_920),
    "1.7B": (2048, 6144, 16, 28, True, 1_720_574_976),
    "4B": (2560, 9728, 32, 36, True, 4_022_468_096),
    "8B": (4096, 12288, 32, 36, False, 8_190_735_360),
}
"""Hidden size, size of the MLP, heads, layers, tied embeddings, parameters of the language model."""


def qwen3(
    hidden: int, inner: int, heads: int, layers: int, keys: int = KEY_HEADS, size: int = SIZE, **more: Any
) -> Qwen3Config:
    """With ``heads`` query heads of ``size`` and ``keys`` key heads; ``more`` settings of `Qwen3Config`."""
    return Qwen3Config(
        **{"vocab_size": 300, **more},
        hidden_size=hidden,
        intermediate_size=inner,
        num_attention_heads=heads,
        num_key_value_heads=keys,
        head_dim=size,
        num_hidden_layers=layers,
    )
