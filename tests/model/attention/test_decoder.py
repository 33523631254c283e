"""Packed rows against padded ones, the pruned last layer against the full one: same logits, same gradients."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from transformers import Gemma2Config, Gemma2Model

from crm.model.attention.decoder import prune_last_layer
from crm.model.backbone import build_tiny_backbone
from crm.model.batching.batches import collate, collate_forest
from crm.model.encoding import Encoder
from crm.model.heads import LINEAR_HEADS
from crm.model.reward_model import RewardModel, build_score
from crm.schema import Comparison
from tests.conftest import rounding
from tests.model.outcomes import Outcome, assert_same, outcome


@pytest.fixture
def encoded(make_encoder, comparisons):
    """Both orders of every row, some with other criteria: shared beginnings of many lengths."""

    def make(head: str) -> list[Any]:
        rows = [*comparisons, *(replace(row, criteria=(*row.criteria, "And rhymes")) for row in comparisons[:3])]
        return [make_encoder(head).encode(row, order) for row in rows for order in ("ab", "ba")]

    return make


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("prunes", [True, False])
@pytest.mark.parametrize("architecture", ["qwen3", "llama"])
@pytest.mark.parametrize("head", LINEAR_HEADS)
def test_logits_and_gradients_are_those_of_padded_batches(head, architecture, prunes, make_model, encoded) -> None:
    model = make_model(head, architecture)
    model.prunes = False
    expected = outcome(model, collate(encoded(head), pad_id=0))
    assert expected[0].std() > 0.1, "the model tells rows apart"
    model.prunes = prunes
    assert_same(outcome(model, collate_forest(encoded(head))), expected)


def test_checkpointing_float32_and_bfloat16_read_forests_too(make_model, encoded) -> None:
    model, batch = make_model("scalar"), collate_forest(encoded("scalar"))
    expected = outcome(model, collate(encoded("scalar"), pad_id=0))
    model.train()
    model.backbone.gradient_checkpointing_enable({"use_reentrant": False})
    assert_same(outcome(model, batch), expected)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = model(batch).preference_logit
    torch.testing.assert_close(rounded, expected[0], rtol=0, atol=0.1)
    assert rounded.dtype == torch.float32


def pruned_and_full(model: RewardModel, encoder: Encoder, rows: list[Comparison]) -> tuple[Outcome, Outcome]:
    batch = collate([encoder.encode(row, order) for row in rows for order in ("ab", "ba")], pad_id=0)
    assert model.prunes
    pruned = outcome(model, batch)
    model.prunes = False
    return pruned, outcome(model, batch)


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("architecture", ["qwen3", "llama"])
@pytest.mark.parametrize("head", LINEAR_HEADS)
def test_logits_and_gradients_are_those_of_the_full_layer(
    head, architecture, make_model, make_encoder, comparisons
) -> None:
    pruned, full = pruned_and_full(make_model(head, architecture), make_encoder(head), comparisons)
    assert full[0].std() > 0.1, "the model tells rows apart"
    assert_same(pruned, full)


def test_in_float32_they_differ_by_rounding(make_model, make_encoder, comparisons) -> None:
    assert_same(*pruned_and_full(make_model("pairwise_span", "llama"), make_encoder("pairwise_span"), comparisons))


def test_the_last_layer_computes_only_what_is_read(make_model, make_encoder, comparisons) -> None:
    model, encoder = make_model("pairwise_span"), make_encoder("pairwise_span")
    batch = collate([encoder.encode(row, "ab") for row in comparisons], pad_id=0)
    sizes = []
    for layer in model.backbone.layers:
        layer.mlp.register_forward_hook(lambda _module, inputs, _output: sizes.append(inputs[0].shape[1]))
    model(batch)
    assert sizes == [batch.input_ids.shape[1], 2]


@pytest.mark.usefixtures("in_float64")
def test_without_read_positions_the_backbone_answers_in_full(make_model) -> None:
    backbone = make_model("scalar").backbone
    ids = torch.randint(4, 300, (2, 9), generator=torch.Generator().manual_seed(0))
    states = backbone(input_ids=ids).last_hidden_state
    assert states.shape == (2, 9, 16)
    positions = torch.tensor([[8, 3], [0, 8]])
    read = backbone(input_ids=ids, read_positions=positions).last_hidden_state
    torch.testing.assert_close(read, states[torch.arange(2)[:, None], positions], rtol=0, atol=rounding(states))


def test_a_copy_reads_with_its_own_weights(make_model, make_encoder, comparisons) -> None:
    model = make_model("scalar")
    batch = collate([make_encoder("scalar").encode(comparisons[0], "ab")], pad_id=0)
    before, other = model(batch).preference_logit, copy.deepcopy(model)
    with torch.no_grad():
        model.backbone.layers[-1].mlp.down_proj.weight.zero_()
    assert torch.equal(other(batch).preference_logit, before)
    assert not torch.equal(model(batch).preference_logit, before)


def test_other_architectures_and_sliding_windows_are_computed_in_full(make_encoder, comparisons) -> None:
    config = Gemma2Config(
        vocab_size=320,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=8,
        intermediate_size=32,
    )
    model = RewardModel(Gemma2Model(config), build_score("scalar", 16, 0), "scalar")
    assert not model.prunes
    batch = collate([make_encoder("scalar").encode(comparisons[0], "ab")], pad_id=0)
    assert model(batch).preference_logit.shape == (1,)
    windowed = build_tiny_backbone(300, 16, 2, 2, 64, 0, seed=0)
    windowed.layers[-1].self_attn.sliding_window = 4
    assert not prune_last_layer(windowed)
