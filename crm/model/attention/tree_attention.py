"""Attention over a forest of tokens, for unmodified decoders. In: projected heads, a `TreeMask`. Out: what they gather.

transformers lets a model's attention be replaced by name. Ours reads a packed row when it is given a ``tree_mask``,
continues texts whose keys and values it is given as ``cache``, and otherwise calls what the model had before, noting
keys and values where it is told to ``keep`` them. On a CPU it is one scaled dot product a group of nodes; on a GPU one
call of torch's variable-length attention for the whole row.
"""

from __future__ import annotations

import logging
from functools import lru_cache, partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.qwen3.modeling_qwen3 import eager_attention_forward

from crm.model.attention.kv_cache import KVCache, LayerCaches
from crm.model.batching.tree_mask import TreeMask, Varlen

log = logging.getLogger(__name__)
PREFIX = "forest_or_"


def forest_inputs(input_ids: Tensor, position_ids: Tensor, tree_mask: TreeMask) -> dict[str, Any]:
    """What a backbone takes of a forest; ``input_ids`` may be put out by ``inputs_embeds``."""
    # A mask of four dimensions keeps transformers from making one of its own; who sees whom is in the tree mask.
    unused = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=position_ids.device)
    inputs: dict[str, Any] = {"input_ids": input_ids, "position_ids": position_ids, "attention_mask": unused}
    return inputs | {"tree_mask": tree_mask, "use_cache": False}


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
    attention_mask: Tensor | None,
    *,
    tree_mask: TreeMask | None = None,
    keep: LayerCaches | None = None,
    cache: KVCache | None = None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **others: Any,
) -> tuple[Tensor, Tensor | None]:
    if keep is not None:
        keep.append((key, value))
    if cache is not None:
        own = torch.arange(query.shape[2], device=query.device)[None]
        return cache.attend(module.layer_idx, query, key, value, own, scaling), None
    if tree_mask is None:
        outcome: tuple[Tensor, Tensor | None] = plain(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **others
        )
        return outcome
    return attend_tree(query, key, value, tree_mask, scaling=scaling, dropout=dropout), None


def attend_tree(
    query: Tensor, key: Tensor, value: Tensor, tree_mask: TreeMask, *, scaling: float | None, dropout: float
) -> Tensor:
    """Gather for ``query`` (1, heads, Q, D) from ``key`` and ``value`` (1, key heads, N, D); (1, Q, heads, D)."""
    gathered: Tensor = _attend_untraced(query, key, value, tree_mask, scaling, dropout)
    return gathered


# Every batch has another forest: compiled layers leave this call out instead of tracing it anew, in vain, each time.
@torch.compiler.disable  # type: ignore[untyped-decorator]
def _attend_untraced(
    query: Tensor, key: Tensor, value: Tensor, tree_mask: TreeMask, scaling: float | None, dropout: float
) -> Tensor:
    if tree_mask.varlen is not None and dropout == 0.0 and varlen_aligns_right(query.device, value.dtype):
        return _attend_in_one_call(query, key, value, tree_mask.varlen, scaling)
    return _attend_in_groups(query, key, value, tree_mask, scaling, dropout)


def _attend_in_groups(
    query: Tensor, key: Tensor, value: Tensor, tree_mask: TreeMask, scaling: float | None, dropout: float
) -> Tensor:
    """One call a group; on a CPU never in bfloat16, in which the kernel's backward takes thrice as long (measured)."""
    device, dtype = query.device, value.dtype  # under autocast, rotation has made float32 of queries and keys
    used = torch.promote_types(dtype, torch.float32) if device.type == "cpu" else dtype
    rows = [part[0].transpose(0, 1).to(used) for part in (query, key, value)]
    answers = []
    with torch.autocast(device.type, enabled=False):
        for group in tree_mask.calls.groups:
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
    return torch.cat(answers).index_select(0, tree_mask.calls.back.to(device)).to(dtype)[None]


def _attend_in_one_call(query: Tensor, key: Tensor, value: Tensor, tree_mask: Varlen, scaling: float | None) -> Tensor:
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
    """Whether this release, device and dtype have variable-length attention that lets the **last** query see all keys.

    Tried once on a query of 2 tokens over 5 keys: a kernel that aligned the first query with the first key, or that
    is missing, would be wrong or fail, and the slower way is taken.
    """
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, 2, size, 64, generator=generator).to(device, dtype) for size in (2, 5, 5))
    of_queries, of_keys = (torch.tensor([0, size], dtype=torch.int32, device=device) for size in (2, 5))
    tree_mask = Varlen(torch.arange(5, device=device), of_queries, of_keys, (2, 5))
    visible = torch.ones(2, 5, dtype=torch.bool, device=device).tril(3)
    expected = scaled_dot_product_attention(query, key, value, attn_mask=visible).transpose(1, 2)
    try:
        found = _attend_in_one_call(query, key, value, tree_mask, None)
    except (ImportError, RuntimeError, TypeError) as error:  # not in this release, for this device, or called otherwise
        log.warning("attention: no variable-length kernel on %s (%s); groups are read instead", device, error)
        return False
    aligned = torch.allclose(found.float(), expected.float(), atol=3e-2)
    if not aligned:
        log.warning("attention: the variable-length kernel on %s aligns otherwise; groups are read instead", device)
    return aligned
