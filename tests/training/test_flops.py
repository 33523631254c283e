"""The count against torch's own counter of operations, with and without frozen layers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import Qwen3Config, Qwen3Model

from crm.model.attention.frozen_layers import freeze_lower_layers
from crm.model.reward_model import RewardModel, build_score
from crm.training.flops import step_flops

LENGTH = 24


def reward_model(frozen: int) -> RewardModel:
    config = Qwen3Config(
        vocab_size=300,
        hidden_size=32,
        intermediate_size=80,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=12,
        num_hidden_layers=3,
        attn_implementation="eager",
    )
    backbone = Qwen3Model(config)
    freeze_lower_layers(backbone, frozen)
    return RewardModel(backbone, build_score("scalar", 32, 0), "scalar")


def counted(backbone: Any) -> int:
    """Forward and backward pass over two sequences; the plain attention computes every pair of tokens."""
    with FlopCounterMode(display=False) as counter:
        ids = torch.ones(2, LENGTH, dtype=torch.int64)
        backbone(input_ids=ids, use_cache=False).last_hidden_state.sum().backward()
    return int(counter.get_total_flops())


@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_the_count_is_torchs(frozen: int) -> None:
    model = reward_model(frozen)
    model.prunes = False
    expected = counted(model.backbone)
    assert step_flops(model).of(2 * LENGTH, 2 * LENGTH**2) == expected


def test_a_late_head_reads_every_token_of_the_last_layer(make_model: Any) -> None:
    late, scalar = (make_model(head) for head in ("late", "scalar"))
    assert scalar.prunes and not late.prunes
    scalar.prunes = False
    assert step_flops(late) == step_flops(scalar)


def test_adapters_cost_no_gradient_of_frozen_weights() -> None:
    peft = pytest.importorskip("peft")
    model = reward_model(0)
    model.prunes = False
    full = step_flops(model)
    settings = peft.LoraConfig(r=2, target_modules="all-linear")
    model.backbone = peft.get_peft_model(model.backbone, settings)
    adapted = step_flops(model)
    linear = 3 * (2 * 32 * 48 + 2 * 32 * 24 + 3 * 32 * 80)
    adapters = 3 * 2 * (2 * (32 + 48) + 2 * (32 + 24) + 3 * (32 + 80))
    assert full.per_token == 6 * linear
    assert adapted.per_token == 4 * linear + 6 * adapters
    assert adapted.per_pair == full.per_pair == 12 * 4 * 12 * 3


def test_of_a_pruned_last_layer_keys_and_values_are_left() -> None:
    model = reward_model(0)
    assert model.prunes
    pruned = step_flops(model)
    model.prunes = False
    full = step_flops(model)
    assert full.per_token - pruned.per_token == 6 * (2 * 32 * 48 + 3 * 32 * 80)
    assert 3 * pruned.per_pair == 2 * full.per_pair


def test_qwen3_by_the_known_sizes() -> None:
    """0.6B at 2,048 tokens: 3.35 GFLOP a token, by hand from 440 M linear weights and half of 2,048 as context."""
    with torch.device("meta"):
        config = Qwen3Config(
            vocab_size=300,
            hidden_size=1024,
            intermediate_size=3072,
            num_attention_heads=16,
            num_key_value_heads=8,
            head_dim=128,
            num_hidden_layers=28,
        )
        model = RewardModel(Qwen3Model(config), torch.nn.Linear(1024, 1), "scalar")
    model.prunes = False
    flops = step_flops(model)
    assert flops.per_token == 6 * 28 * (2 * 1024 * 2048 + 2 * 1024 * 1024 + 3 * 1024 * 3072)
    assert flops.of(2048, 2048 * 2049 // 2) / 2048 == pytest.approx(3.35e9, rel=0.002)
