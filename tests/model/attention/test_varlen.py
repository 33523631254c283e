"""The one call that a GPU makes, its kernel written out: it gathers the same; one that counts otherwise is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from crm.model.attention.decoder import attend_in_one_call, varlen_aligns_right
from crm.model.batching.batches import collate_forest
from crm.model.batching.tree_mask import varlen
from tests.model.outcomes import assert_same, outcome


def varlen_by_hand(query, key, value, cu_q, cu_k, max_q, max_k, *, scale, window_size, enable_gqa):
    """What torch documents of its variable-length attention, one sequence at a time, aligned at the right."""
    assert window_size == (-1, 0) and enable_gqa == (key.shape[1] != query.shape[1])
    parts = []
    for q0, q1, k0, k1 in zip(cu_q[:-1], cu_q[1:], cu_k[:-1], cu_k[1:], strict=True):
        assert 1 <= q1 - q0 <= max_q and q1 - q0 <= k1 - k0 <= max_k
        own, keys, values = (part.transpose(0, 1) for part in (query[q0:q1], key[k0:k1], value[k0:k1]))
        groups = own.shape[0] // keys.shape[0]
        keys, values = (part.repeat_interleave(groups, dim=0) for part in (keys, values))
        logits = own @ keys.transpose(1, 2) * scale
        later = torch.ones(q1 - q0, k1 - k0).tril(int(k1 - k0 - (q1 - q0))) == 0
        parts.append((logits.masked_fill(later, -torch.inf).softmax(-1) @ values).transpose(0, 1))
    return torch.cat(parts)


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("head", ["scalar", "pairwise_span"])
def test_one_call_for_the_whole_row_gathers_the_same(head, make_model, make_encoder, comparisons, monkeypatch) -> None:
    """The way a GPU takes, with its kernel written out: the index tensors are right."""
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", varlen_by_hand)
    rows = [*comparisons, *(replace(row, criteria=(*row.criteria, "And rhymes")) for row in comparisons[:3])]
    encoded = [make_encoder(head).encode(row, order) for row in rows for order in ("ab", "ba")]
    model, batch = make_model(head, "llama"), collate_forest(encoded)
    expected = outcome(model, batch)

    def in_one_call(query, key, value, tree_mask, *, scaling, dropout):
        return attend_in_one_call(query, key, value, varlen(tree_mask.spans), scaling)

    monkeypatch.setattr("crm.model.attention.decoder.attend_tree", in_one_call)
    assert_same(outcome(model, batch), expected)


@pytest.mark.parametrize("aligned", ["right", "left"])
def test_a_kernel_that_aligns_left_is_not_used(aligned, monkeypatch) -> None:
    def aligned_left(query, key, value, cu_q, cu_k, *_, **others):
        queries = torch.cat([query, query.new_zeros(3, *query.shape[1:])])
        return varlen_by_hand(queries, key, value, cu_k, cu_k, 5, 5, **others)[:2]

    def aligned_right(*args, **others):
        return varlen_by_hand(*args, **{**others, "scale": 64**-0.5})

    kernel = aligned_right if aligned == "right" else lambda *a, **o: aligned_left(*a, **{**o, "scale": 64**-0.5})
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", kernel)
    varlen_aligns_right.cache_clear()
    try:
        assert varlen_aligns_right(torch.device("cpu"), torch.float32) is (aligned == "right")
    finally:
        varlen_aligns_right.cache_clear()
