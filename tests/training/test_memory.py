"""The estimate against numbers by hand, against what autograd really keeps, and against a machine's memory."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen3Model

from crm.config import compose
from crm.model.backbone import add_lora, freeze_lower_layers
from crm.training.config import TrainConfig
from crm.training.memory import (
    GIB,
    MemoryNeed,
    layer_bytes_per_token,
    settle_memory,
    training_need,
)
from tests.model.helpers import PUBLISHED, VOCABULARY, qwen3


def kept_bytes(config: Any, tokens: int, mixed: bool, rank: int = 0) -> int:
    """Bytes that autograd keeps of a padded forward pass, the parameters left out; every storage once."""
    model: Any = Qwen3Model(config).train()
    model = add_lora(model, rank, rank).train() if rank else model
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in own:
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    mask = torch.ones(2, tokens, dtype=torch.int64)
    mask[0, -3:] = 0
    ids = torch.ones(2, tokens, dtype=torch.int64)
    with (
        torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=mixed, cache_enabled=False),
    ):
        output = model(input_ids=ids, attention_mask=mask, use_cache=False)
    assert output is not None
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values())


@pytest.mark.parametrize("mixed", [True, False])
@pytest.mark.parametrize(("shape", "rank"), [((64, 192, 4), 0), ((128, 320, 12), 0), ((128, 320, 12), 1)])
def test_a_tokens_activations_are_what_autograd_keeps(shape: tuple[int, int, int], rank: int, mixed: bool) -> None:
    """A further layer adds a constant (copies of weights), what is linear in the tokens, and a square (the mask)."""
    if rank:
        pytest.importorskip("peft")

    def of_a_layer(tokens: int) -> int:
        # Below adapters the lowest layer keeps less: nothing below it needs a gradient.
        fewer, more = (
            kept_bytes(qwen3(*shape, layers, keys=2, size=64), tokens, mixed, rank) for layers in (1 + rank, 2 + rank)
        )
        return more - fewer

    short, middle, long = (of_a_layer(tokens) for tokens in (32, 64, 96))
    quadratic = (long - 2 * middle + short) / (2 * 32**2)
    linear = (long - short) / 64 - quadratic * (96 + 32)
    estimate = layer_bytes_per_token(qwen3(*shape, 1, keys=2, size=64), mixed=mixed, norms=not rank)
    put_out = 7 * rank * (2 if mixed else 4)  # of adapters; what frozen norms need is not kept
    assert linear / 2 == pytest.approx(estimate + put_out, rel=0.01), "of each of two sequences"


def test_state_by_hand() -> None:
    """16 bytes a trained parameter, 4 a frozen one, 4 more with replicas; a half each on two shards."""
    model = Qwen3Model(qwen3(32, 48, 2, 3, keys=1, size=16))
    everything = sum(p.numel() for p in model.parameters())
    assert training_need(model, 0, mixed=False) == MemoryNeed(16 * everything, 0)
    assert training_need(model, 0, mixed=False, replicas=2).state == 20 * everything
    assert training_need(model, 0, mixed=False, shards=2).state == 8 * everything
    # A layer's linear weights: queries and output 32 * 32 each, keys and values 32 * 16 each, three of 32 * 48.
    linear = 3 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 48)
    assert training_need(model, 0, mixed=True).activations == 2 * linear
    freeze_lower_layers(model, 2)
    trained = sum(p.numel() for p in (*model.layers[2].parameters(), *model.norm.parameters()))
    need = training_need(model, 10, mixed=False)
    assert need.state == 16 * trained + 4 * (everything - trained)
    assert need.activations == 10 * 1 * layer_bytes_per_token(model.config, mixed=False)


CHOICES = [
    ("0.6B", 1, 24, 0, "auto", False),
    ("1.7B", 1, 24, 0, "", None),
    ("1.7B", 1, 24, 16, "auto", True),
    ("1.7B", 2, 24, 0, "fsdp", True),
    ("1.7B", 8, 80, 0, "ddp", False),
    ("4B", 1, 24, 0, "", None),
    ("4B", 1, 24, 16, "auto", True),
    ("4B", 8, 24, 0, "fsdp", True),
    ("8B", 1, 80, 0, "", None),
    ("8B", 2, 80, 0, "fsdp", True),
    ("8B", 8, 80, 0, "fsdp", False),
]
"""Full 4B: 16 bytes a weight are 60 GiB, 20 with DDP 75; 8B: 113 GiB, on 8 devices 14 each."""


@pytest.fixture(scope="module")
def pretrained() -> TrainConfig:
    words = ["model=pretrained", "model.path=x", "data=simulation", "trainer.accelerator=gpu", "trainer.nodes=1"]
    config: TrainConfig = compose("train", [*words, "trainer.precision=bf16-mixed"], Path("run"))
    return config


@pytest.mark.parametrize(("name", "devices", "gigabytes", "rank", "chosen", "checkpointing"), CHOICES)
def test_strategy_and_checkpointing_of_a_pretrained_model(
    name, devices, gigabytes, rank, chosen, checkpointing, pretrained, tmp_path, monkeypatch
) -> None:
    config = qwen3(*PUBLISHED[name][:4], vocab_size=VOCABULARY)
    config.architectures = ["Qwen3Model"]
    config.save_pretrained(tmp_path)
    run = deepcopy(pretrained)
    run.model.path, run.model.lora_rank, run.trainer.devices = str(tmp_path), rank, devices
    monkeypatch.setattr("crm.training.memory.training_device", lambda accelerator: torch.device("cuda", 0))
    monkeypatch.setattr("crm.training.memory.memory_of", lambda device: int(gigabytes * 0.99 * GIB))
    if not chosen:
        with pytest.raises(ValueError, match=r"a step takes .*trainer=fsdp on several GPUs, model\.lora_rank=16"):
            settle_memory(run)
        return
    settle_memory(run)
    assert (run.trainer.strategy, run.model.gradient_checkpointing) == (chosen, checkpointing)
