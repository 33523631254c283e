"""The last layer, computed only where a head reads. In: a decoder backbone. Out: the same numbers for less work.

A head reads one or two positions of a sequence. Below the last layer every position matters to those; in the last
layer the others matter only as keys and values, so their queries, attention output and MLP need not be computed. The
result is exact. It saves most of the last layer: much of a model of two layers, little of one of 28. Gradient
checkpointing leaves a pruned layer out: it keeps little more than its keys and values.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import dropout, softmax
from transformers import PreTrainedModel
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, rotate_half
from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer

from crm.model.attention.kv_cache import KVCache, LayerCaches
from crm.model.attention.tree_attention import attend_tree
from crm.model.batching.tree_mask import TreeMask

KNOWN_LAYERS = (Qwen3DecoderLayer, LlamaDecoderLayer)
"""Decoder layers whose parts `_forward_at` knows; any other is computed in full."""


def prune_last_layer(backbone: PreTrainedModel) -> bool:
    """Let the last layer take ``read_positions`` (S, R); False, and nothing changed, for an architecture not known.

    Afterwards ``backbone(..., read_positions=p).last_hidden_state`` is (S, R, H), the states at those positions, and
    without that argument the backbone answers as before. Sequences must be padded on the right, or S be 1 and the row a
    forest, ``tree_mask`` then saying what its tokens see and ``read_mask`` what those that are read see.
    ``keep`` and ``cache`` mean here what they mean to `tree_attention`.
    """
    layer: Any = backbone.layers[-1]  # type: ignore[index]
    if not is_known(layer):
        return False
    layer.forward = partial(_forward, layer)
    return True


def is_known(layer: Any) -> bool:
    """Whether a decoder layer is of an architecture whose parts are known, and sees all that came before."""
    return isinstance(layer, KNOWN_LAYERS) and not getattr(layer.self_attn, "sliding_window", None)


def _forward(
    layer: Any,
    hidden_states: Tensor,
    read_positions: Tensor | None = None,
    read_mask: TreeMask | None = None,
    **others: Any,
) -> Any:
    if read_positions is None:
        return type(layer).forward(layer, hidden_states, **others)
    seen = (read_mask, others.get("keep"), others.get("cache"))
    return _forward_at(layer, hidden_states, read_positions, others["position_embeddings"], *seen)


def _forward_at(
    layer: Any,
    states: Tensor,
    positions: Tensor,
    rotations: tuple[Tensor, Tensor],
    tree_mask: TreeMask | None,
    keep: LayerCaches | None,
    cache: KVCache | None,
) -> Any:
    """(S, R, H): the layer's output at ``positions`` (S, R) of ``states`` (S, T, H)."""
    rows = torch.arange(len(states), device=states.device)[:, None]
    residual = states[rows, positions]
    normed = layer.input_layernorm(states)
    attended = _attend(layer.self_attn, normed, normed[rows, positions], positions, rotations, tree_mask, keep, cache)
    residual = residual + layer.self_attn.o_proj(attended)
    return residual + layer.mlp(layer.post_attention_layernorm(residual))


def _attend(
    attention: Any,
    states: Tensor,
    readers: Tensor,
    positions: Tensor,
    rotations: tuple[Tensor, Tensor],
    tree_mask: TreeMask | None,
    keep: LayerCaches | None,
    cache: KVCache | None,
) -> Tensor:
    """(S, R, heads * head_dim): what ``readers`` (S, R, H) gather from the positions up to their own."""
    # One table where padded sequences all start at 0 or a forest is one row; one a sequence where each goes on.
    rows = torch.arange(len(states), device=states.device)[:, None]
    at_keys = [table[:, None] for table in rotations]
    at_queries = [table.expand(len(states), -1, -1)[rows, positions][:, None] for table in rotations]
    keys = _rotated(_heads(attention, attention.k_proj(states), "k_norm"), *at_keys)
    queries = _rotated(_heads(attention, attention.q_proj(readers), "q_norm"), *at_queries)
    values = _heads(attention, attention.v_proj(states))
    if keep is not None:
        keep.append((keys, values))
    if cache is not None:
        gathered = cache.attend(attention.layer_idx, queries, keys, values, positions, attention.scaling)
        return gathered.flatten(2)
    dropped = attention.attention_dropout if attention.training else 0.0
    if tree_mask is not None:
        seen: Tensor = attend_tree(queries, keys, values, tree_mask, scaling=attention.scaling, dropout=dropped)
        return seen.flatten(2)
    # Several query heads share a key head: they are read as if they were further positions of it. Written out, since
    # for one or two queries the fused kernel's backward was the most costly part of a small step in bfloat16 on CPU.
    sequences, heads, reads, size = queries.shape
    groups = attention.num_key_value_groups
    logits = queries.reshape(sequences, -1, groups * reads, size) @ keys.transpose(-1, -2)
    visible = torch.arange(states.shape[1], device=states.device) <= positions[:, None, :, None]
    logits = (logits.float() * attention.scaling).masked_fill(~visible.repeat(1, 1, groups, 1), float("-inf"))
    weights = dropout(softmax(logits, dim=-1), dropped)
    gathered = (weights.to(values.dtype) @ values).reshape(sequences, heads, reads, size)
    return gathered.transpose(1, 2).flatten(2)


def _heads(attention: Any, projected: Tensor, norm: str = "no norm") -> Tensor:
    """(S, T, heads * head_dim) to (S, heads, T, head_dim), each head normalised where the architecture has ``norm``."""
    split = projected.view(*projected.shape[:2], -1, attention.head_dim)
    if hasattr(attention, norm):
        split = getattr(attention, norm)(split)
    return split.transpose(1, 2)


def _rotated(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    turned: Tensor = rotate_half(heads)  # type: ignore[no-untyped-call]
    return heads * cos + turned * sin
