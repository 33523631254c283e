"""Packed rows against padded ones: same logits, same gradients, for every head and architecture."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from crm.model.attention import tree_attention
from crm.model.batching.batches import collate
from crm.model.batching.packs import collate_forest
from crm.model.batching.tree_mask import varlen
from crm.model.heads import HEADS
from tests.model.outcomes import assert_same, outcome


@pytest.fixture
def encoded(make_encoder, comparisons):
    """Both orders of every row, some with other criteria: shared beginnings of many lengths."""

    def make(head: str) -> list[Any]:
        rows = [*comparisons, *(replace(row, criteria=(*row.criteria, "And rhymes")) for row in comparisons[:3])]
        return [make_encoder(head).encode(row, order) for row in rows for order in ("ab", "ba")]

    return make


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("prunes", [True, False])
@pytest.mark.parametrize("architecture", ["qwen3", "llama"])
@pytest.mark.parametrize("head", HEADS)
def test_logits_and_gradients_are_those_of_padded_batches(
    head, architecture, prunes, share, make_model, encoded
) -> None:
    model = make_model(head, architecture)
    model.prunes = False
    expected = outcome(model, collate(encoded(head), pad_id=0))
    assert expected[0].std() > 0.1, "the model tells rows apart"
    model.prunes = prunes
    assert_same(outcome(model, collate_forest(encoded(head), share=share)), expected)


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
def test_one_call_for_the_whole_row_gathers_the_same(head, make_model, encoded, monkeypatch) -> None:
    """The way a GPU takes, with its kernel written out: the index tensors are right."""
    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", varlen_by_hand)
    model, batch = make_model(head, "llama"), collate_forest(encoded(head), share=True)
    expected = outcome(model, batch)

    def in_one_call(query, key, value, tree_mask, *, scaling, dropout):
        return tree_attention._attend_in_one_call(query, key, value, varlen(tree_mask.spans), scaling)

    monkeypatch.setattr("crm.model.attention.tree_attention.attend_tree", in_one_call)
    monkeypatch.setattr("crm.model.attention.last_layer.attend_tree", in_one_call)
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
    tree_attention.varlen_aligns_right.cache_clear()
    try:
        assert tree_attention.varlen_aligns_right(torch.device("cpu"), torch.float32) is (aligned == "right")
    finally:
        tree_attention.varlen_aligns_right.cache_clear()


def test_checkpointing_float32_and_bfloat16_read_forests_too(make_model, encoded) -> None:
    model, batch = make_model("scalar"), collate_forest(encoded("scalar"), share=True)
    expected = outcome(model, collate(encoded("scalar"), pad_id=0))
    model.train()
    model.backbone.gradient_checkpointing_enable({"use_reentrant": False})
    assert_same(outcome(model, batch), expected)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = model(batch).preference_logit
    torch.testing.assert_close(rounded, expected[0], rtol=0, atol=0.1)
    assert rounded.dtype == torch.float32
