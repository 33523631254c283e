"""Tree attention for an unmodified decoder, and a last layer that is computed only where a head reads.

transformers lets a model's attention be replaced by name. Ours reads a forest when it is given a ``tree_mask`` and
otherwise calls what the model had before. On a CPU it is one scaled dot product a group of nodes; on a GPU one call of
torch's variable-length attention for the whole row, where this release and device have it.

A head reads one or two positions of a sequence. Below the last layer every position matters to those; in the last
layer the others matter only as keys and values, so their queries, attention output and MLP need not be computed. The
result is exact. It saves most of the last layer: much of a model of two layers, little of one of 28. Gradient
checkpointing leaves a pruned layer out: it keeps little more than its keys and values.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import dropout as dropped_out
from torch.nn.functional import scaled_dot_product_attention, softmax
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, rotate_half
from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer, eager_attention_forward

from crm.model.batching.batches import ROW_STEP
from crm.model.batching.forest import Forest, TreeMask, Varlen, fill_up, full_mask, grow_forest

log = logging.getLogger(__name__)
PREFIX = "forest_or_"
KNOWN_LAYERS = (Qwen3DecoderLayer, LlamaDecoderLayer)
"""Decoder layers whose parts `_forward_at` knows; of any other the last is computed in full."""


def forest_inputs(input_ids: Tensor, position_ids: Tensor, tree_mask: TreeMask) -> dict[str, Any]:
    """What a backbone takes of a forest; ``input_ids`` may be put out by ``inputs_embeds``."""
    # A mask of four dimensions keeps transformers from making one of its own; who sees whom is in the tree mask.
    unused = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=position_ids.device)
    inputs: dict[str, Any] = {"input_ids": input_ids, "position_ids": position_ids, "attention_mask": unused}
    return inputs | {"tree_mask": tree_mask, "use_cache": False}


def read_forest(backbone: Any, sequences: Sequence[tuple[int, ...]]) -> tuple[Forest, Tensor]:
    """Sequences of token ids as a forest, and the states (N, H) that the backbone gives for its row."""
    forest, device = grow_forest(sequences), backbone.device
    fill_up(forest, ROW_STEP)
    ids, positions = (torch.tensor([row], device=device) for row in (forest.ids, forest.positions))
    output = backbone(**forest_inputs(ids, positions, full_mask(forest).to(device)))
    return forest, output.last_hidden_state[0]


def use_tree_attention(backbone: PreTrainedModel) -> None:
    """Give a backbone the attention below; what it computes without a ``tree_mask`` stays as it was."""
    config: Any = backbone.config
    former = config._attn_implementation
    if former.startswith(PREFIX):
        return
    plain = eager_attention_forward if former == "eager" else ALL_ATTENTION_FUNCTIONS[former]
    AttentionInterface.register(PREFIX + former, partial(_attention, plain))
    AttentionMaskInterface.register(PREFIX + former, ALL_MASK_ATTENTION_FUNCTIONS[former])
    config._attn_implementation = PREFIX + former


def _attention(
    plain: Any,
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Any,
    *,
    tree_mask: Any = None,
    **others: Any,
) -> tuple[Tensor, Tensor | None]:
    if tree_mask is None:
        outcome: tuple[Tensor, Tensor | None] = plain(module, query, key, value, mask, **others)
        return outcome
    scaling, dropout = others.get("scaling"), others.get("dropout", 0.0)
    return attend_tree(query, key, value, tree_mask, scaling=scaling, dropout=dropout), None


# Every batch has another forest: compiled layers leave this call out instead of tracing it anew, in vain, each time.
@torch.compiler.disable  # type: ignore[untyped-decorator]
def attend_tree(
    query: Tensor, key: Tensor, value: Tensor, tree_mask: TreeMask, *, scaling: float | None, dropout: float
) -> Tensor:
    """Gather for ``query`` (1, heads, Q, D) from ``key`` and ``value`` (1, key heads, N, D); (1, Q, heads, D)."""
    if tree_mask.varlen is not None and dropout == 0.0 and varlen_aligns_right(query.device, value.dtype):
        return attend_in_one_call(query, key, value, tree_mask.varlen, scaling)
    return _attend_in_groups(query, key, value, tree_mask, scaling, dropout)


def attend_in_one_call(query: Tensor, key: Tensor, value: Tensor, tree_mask: Varlen, scaling: float | None) -> Tensor:
    """Keys are gathered once for every sequence that sees them; queries need no gathering, they are in order."""
    from torch.nn.attention.varlen import varlen_attn

    own, keys, values = (part[0].transpose(0, 1).to(value.dtype) for part in (query, key, value))
    gathered = varlen_attn(
        own.contiguous(),
        keys.index_select(0, tree_mask.keys),
        values.index_select(0, tree_mask.keys),
        tree_mask.cu_queries,
        tree_mask.cu_keys,
        *tree_mask.longest,
        scale=scaling,
        window_size=(-1, 0),
        enable_gqa=key.shape[1] != query.shape[1],
    )
    assert isinstance(gathered, Tensor)
    return gathered[None]


@lru_cache
def varlen_aligns_right(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether variable-length attention is there and lets the **last** query see all keys.

    Tried once on a query of 2 tokens over 5 keys: a kernel that aligned the first query with the first key would be
    wrong without an error.
    """
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, 2, size, 64, generator=generator).to(device, dtype) for size in (2, 5, 5))
    of_queries, of_keys = (torch.tensor([0, size], dtype=torch.int32, device=device) for size in (2, 5))
    visible = torch.ones(2, 5, dtype=torch.bool, device=device).tril(3)
    expected = scaled_dot_product_attention(query, key, value, attn_mask=visible).transpose(1, 2)
    spans = Varlen(torch.arange(5, device=device), of_queries, of_keys, (2, 5))
    try:
        found = attend_in_one_call(query, key, value, spans, None)
        aligned = torch.allclose(found.float(), expected.float(), atol=3e-2)
    except (ImportError, RuntimeError, TypeError):  # not in this release, or not for this device
        aligned = False
    if not aligned:
        log.warning("attention: no usable variable-length kernel on %s; groups are read instead", device)
    return aligned


def _attend_in_groups(
    query: Tensor, key: Tensor, value: Tensor, tree_mask: TreeMask, scaling: float | None, dropout: float
) -> Tensor:
    """One call a group; on a CPU never in bfloat16, in which the kernel's backward takes thrice as long (measured)."""
    device, dtype = query.device, value.dtype  # under autocast, rotation has made float32 of queries and keys
    used = torch.promote_types(dtype, torch.float32) if device.type == "cpu" else dtype
    rows = [part[0].transpose(0, 1).to(used) for part in (query, key, value)]
    groups, back = tree_mask.calls
    answers = []
    with torch.autocast(device.type, enabled=False):
        for group in groups:
            count = group.shape[0]
            own, keys, values = (
                part.index_select(0, index.to(device)).view(count, -1, *part.shape[1:]).transpose(1, 2)
                for part, index in zip(rows, (group.queries, group.keys, group.keys), strict=True)
            )
            answer = scaled_dot_product_attention(
                own,
                keys,
                values,
                attn_mask=None if group.mask is None else group.mask.to(device, used),
                dropout_p=dropout,
                is_causal=group.mask is None,
                scale=scaling,
                enable_gqa=key.shape[1] != query.shape[1],
            )
            answers.append(answer.transpose(1, 2).flatten(0, 1))
    return torch.cat(answers).index_select(0, back.to(device)).to(dtype)[None]


def prune_last_layer(backbone: PreTrainedModel) -> bool:
    """Let the last layer take ``read_positions`` (S, R); False, and nothing changed, for an architecture not known.

    Afterwards ``backbone(..., read_positions=p).last_hidden_state`` is (S, R, H), the states at those positions, and
    without that argument the backbone answers as before. Sequences must be padded on the right, or S be 1 and the row a
    forest, ``tree_mask`` then saying what its tokens see and ``read_mask`` what those that are read see.
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
    layer: Any, states: Tensor, read_positions: Tensor | None = None, read_mask: TreeMask | None = None, **others: Any
) -> Any:
    """(S, R, H): the layer's output at ``read_positions`` (S, R) of ``states`` (S, T, H); of all without them."""
    if read_positions is None:
        return type(layer).forward(layer, states, **others)
    rows = torch.arange(len(states), device=states.device)[:, None]
    residual, normed = states[rows, read_positions], layer.input_layernorm(states)
    attended = _attend(layer.self_attn, normed, read_positions, others["position_embeddings"], read_mask)
    residual = residual + layer.self_attn.o_proj(attended)
    return residual + layer.mlp(layer.post_attention_layernorm(residual))


def _attend(
    attention: Any, states: Tensor, positions: Tensor, rotations: tuple[Tensor, Tensor], tree_mask: TreeMask | None
) -> Tensor:
    """(S, R, heads * head_dim): what ``positions`` (S, R) of ``states`` (S, T, H) gather from those up to their own."""
    rows = torch.arange(len(states), device=states.device)[:, None]
    at_keys = [table[:, None] for table in rotations]
    at_queries = [table.expand(len(states), -1, -1)[rows, positions][:, None] for table in rotations]
    keys = _rotated(_heads(attention, attention.k_proj(states), "k_norm"), *at_keys)
    queries = _rotated(_heads(attention, attention.q_proj(states[rows, positions]), "q_norm"), *at_queries)
    values = _heads(attention, attention.v_proj(states))
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
    weights = dropped_out(softmax(logits, dim=-1), dropped)
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
