"""Texts read once, continuations as often as wanted. In: token ids. Out: kept keys and values; then states of a head.

Letters: G texts, L tokens of the longest, C tokens that follow, R of them at which the head reads, H hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from crm.model.attention.kv_cache import KVCache, LayerCaches
from crm.model.reward_model import RewardModel


def prefill(model: RewardModel, texts: Sequence[Sequence[int]], pad_id: int, dtype: torch.dtype) -> KVCache:
    """Keys and values of G texts of one token or more, kept in ``dtype`` on the model's device.

    The last layer is computed as far as its keys and values. Raises ``ValueError`` for an architecture whose layers
    are not known.
    """
    if not model.reads_forests:
        raise ValueError(f"model: {type(model.backbone).__name__} is not known to go on from kept states")
    ids = torch.full((len(texts), max(map(len, texts))), pad_id, dtype=torch.int64)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.tensor(text)
    kept: LayerCaches = []
    # One position must be read; padding stands on the right, so that causal attention alone hides it from the rest.
    unread = torch.zeros(len(texts), 1, dtype=torch.int64, device=model.device)
    model.backbone(input_ids=ids.to(model.device), use_cache=False, keep=kept, read_positions=unread)
    keys, values = (torch.stack([layer[part].to(dtype) for layer in kept]) for part in (0, 1))
    return KVCache(keys, values, torch.tensor([len(text) for text in texts], device=model.device))


def extend(model: RewardModel, cache: KVCache, ids: Sequence[int], reads: Sequence[int]) -> Tensor:
    """(G, R, H): states at the positions ``reads`` of the C tokens ``ids`` that follow every one of G texts."""
    device, texts = model.device, len(cache.lengths)
    # A mask of four dimensions keeps transformers from making one of its own.
    unused = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device)
    inputs: dict[str, Any] = {
        "input_ids": torch.tensor([list(ids)], device=device).expand(texts, -1),
        "position_ids": cache.lengths[:, None] + torch.arange(len(ids), device=device),
        "attention_mask": unused,
        "read_positions": torch.tensor([list(reads)], device=device).expand(texts, -1),
    }
    states = model.backbone(**inputs, use_cache=False, cache=cache).last_hidden_state
    assert isinstance(states, Tensor)
    return states
