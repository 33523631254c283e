"""A packed row in one call, on a GPU. In: heads, sequences of queries and keys. Out: what each query gathers.

The kernel is torch's variable-length attention; where it is missing or counts otherwise, groups are read instead.
"""

from __future__ import annotations

import logging
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from crm.model.batching.tree_mask import Varlen

log = logging.getLogger(__name__)


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
        found = attend_in_one_call(query, key, value, tree_mask, None)
    except (ImportError, RuntimeError, TypeError) as error:  # not in this release, for this device, or called otherwise
        log.warning("attention: no variable-length kernel on %s (%s); groups are read instead", device, error)
        return False
    aligned = torch.allclose(found.float(), expected.float(), atol=3e-2)
    if not aligned:
        log.warning("attention: the variable-length kernel on %s aligns otherwise; groups are read instead", device)
    return aligned
