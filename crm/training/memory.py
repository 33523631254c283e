"""An estimate of a training step's memory, and the settings that follow from it.

Kernels, allocators and attention masks differ, so that a step may need more or less.
"""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

import psutil
import torch
from lightning.pytorch.utilities import rank_zero_only
from torch import nn

from crm.model.attention.frozen_layers import FrozenLayers
from crm.model.backbone import empty_backbone, prepare_layers, without_lora_wrapper
from crm.model.reward_model import RewardModel
from crm.training.config import TrainConfig
from crm.training.devices import training_device

log = logging.getLogger(__name__)

TRAINED_BYTES = 16
"""A trained parameter in float32: weight 4, gradient 4, AdamW's two moments 8."""
FROZEN_BYTES = 4
USABLE = 0.9
"""Share of the memory that may be planned for; the rest is for kernels' own needs and fragmentation."""
GIB = 2**30


class MemoryNeed(NamedTuple):
    """Bytes of a training step on one device, together their sum."""

    state: int
    """Weights, gradients, optimizer."""
    activations: int
    """What the layers keep for the backward pass."""


def training_need(
    backbone: nn.Module, tokens: int, *, mixed: bool, shards: int = 1, replicas: int = 1, checkpointing: bool = False
) -> MemoryNeed:
    """Estimate for ``tokens`` (sequences times padded length) in one forward pass on one device.

    ``mixed`` is bfloat16 arithmetic on float32 weights, of which autocast keeps bfloat16 copies. ``shards`` divides the
    state (FSDP2), needs no such copies, and gathers the embedding, for a moment twice. More than one of ``replicas``
    (DDP) adds 4 bytes a trained parameter for the exchange of gradients. With ``checkpointing`` a layer keeps its
    input, and one at a time all it needs and a quarter more for gradients within it.
    """
    trained = sum(p.numel() for p in backbone.parameters() if p.requires_grad)
    frozen = sum(p.numel() for p in backbone.parameters()) - trained
    buffers = 4 * trained if replicas > 1 else 0
    state = (TRAINED_BYTES * trained + FROZEN_BYTES * frozen + buffers) // shards
    sharded, width = shards > 1, 2 if mixed and shards > 1 else 4
    weights = [part.weight for part in backbone.modules() if mixed and not sharded and isinstance(part, nn.Linear)]
    copies = 2 * sum(weight.numel() for weight in weights)
    gathered = width * backbone.get_input_embeddings().weight.numel() if sharded else 0  # type: ignore[operator]
    layers = layers_with_gradient(backbone)
    norms = any(p.requires_grad for p in backbone.layers[-1].parameters() if p.ndim == 1)  # type: ignore[index, union-attr]
    layer = tokens * layer_bytes_per_token(backbone.config, mixed=mixed, sharded=sharded, norms=norms)
    if not checkpointing:
        return MemoryNeed(state, layers * layer + copies + 2 * gathered)
    inputs = width * tokens * layers * int(backbone.config.hidden_size)  # type: ignore[union-attr, arg-type]
    one = min(1, layers) * 5 * layer // 4 + copies // max(1, len(backbone.layers))  # type: ignore[arg-type]
    cached = 2 * sum(weight.numel() for weight in weights if weight.requires_grad)
    return MemoryNeed(state, inputs + gathered + max(one, gathered, cached))


def layer_bytes_per_token(config: Any, *, mixed: bool, sharded: bool = False, norms: bool = True) -> int:
    """Bytes that one decoder layer keeps of one token for the backward pass (SDPA attention, padded batch).

    With H hidden size, I intermediate size, A heads * head size, K the same of keys: ``26 H + 8 I + 14 A + 6 K`` in
    bfloat16 arithmetic, ``24 H + 16 I + 24 A + 8 K`` in float32. Residual stream and norms stay float32 in both; if
    ``sharded`` (FSDP2) they are bfloat16 too, ``18 H + 8 I + 12 A + 8 K``. Where ``norms`` are frozen (LoRA), what they
    normalised is not kept; adapters outside of shards keep another copy of what the output projection reads.
    The factors are those of the tensors that autograd saves in a Qwen3 layer, of which others keep much the same.
    """
    hidden, heads = config.hidden_size, config.num_attention_heads
    size = getattr(config, "head_dim", None) or hidden // heads
    queries, keys = heads * size, (getattr(config, "num_key_value_heads", None) or heads) * size
    inner = getattr(config, "intermediate_size", None) or 4 * hidden
    widths = (hidden, inner, queries, keys)
    if norms:
        factors = ((18, 8, 12, 8) if sharded else (26, 8, 14, 6)) if mixed else (24, 16, 24, 8)
    else:
        factors = ((14, 8, 10, 6) if sharded else (18, 8, 14, 4)) if mixed else (16, 16, 20, 4)
    return sum(factor * width for factor, width in zip(factors, widths, strict=True))


def layers_with_gradient(backbone: Any) -> int:
    """How many decoder layers a gradient passes through: those from the lowest trained weight upwards."""
    if any(p.requires_grad for p in backbone.get_input_embeddings().parameters()):
        return len(backbone.layers)
    trained = [index for index, layer in enumerate(backbone.layers) if any(p.requires_grad for p in layer.parameters())]
    return len(backbone.layers) - trained[0] if trained else 0


def settle_memory(config: TrainConfig) -> None:
    """Replace ``trainer.strategy=auto`` and ``model.gradient_checkpointing=auto`` before any weight is loaded.

    Several devices become DDP where a step fits on each, else FSDP2; layers are checkpointed where their activations
    would not fit. Raises ``ValueError`` where the step does not fit even so.
    """
    settings, ranks = config.trainer, config.trainer.processes
    if config.model.path is None:  # too small to matter
        settings.strategy = "ddp" if settings.strategy == "auto" and ranks > 1 else settings.strategy
        config.model.gradient_checkpointing = config.model.gradient_checkpointing is True
        return
    backbone: Any = empty_backbone(str(config.model.path), config.model.revision)
    with torch.device("meta"):  # shapes without weights, with what is frozen and adapted as configured
        backbone = without_lora_wrapper(prepare_layers(backbone, config.model))
    device, tokens = training_device(settings.accelerator), config.batching.tokens
    at_hand, mixed = memory_of(device), settings.precision == "bf16-mixed"

    def need_of(strategy: str, checkpointing: bool) -> MemoryNeed:
        places = {"shards": ranks} if strategy == "fsdp" else {"replicas": ranks}
        return training_need(backbone, tokens, mixed=mixed, checkpointing=checkpointing, **places)

    if settings.strategy == "auto" and ranks > 1:
        whole = sum(need_of("ddp", True)) <= USABLE * at_hand or config.optimizer.name == "muon"
        settings.strategy = "ddp" if whole else "fsdp"
        config.check_sharded()
    need, plain, share = need_of(settings.strategy, True), need_of(settings.strategy, False), " a device" * (ranks > 1)
    if config.model.gradient_checkpointing == "auto":
        config.model.gradient_checkpointing = sum(plain) > USABLE * at_hand
    rank_zero_only(log.info)(
        f"memory: weights, gradients and optimizer take {need.state / GIB:.1f} GiB{share} "
        f"({settings.strategy if ranks > 1 else 'whole'} on {ranks} {device.type}), of {at_hand / GIB:.1f}; "
        f"activations of {tokens:,} tokens {plain.activations / GIB:.1f}, with gradient checkpointing "
        f"({'on' if config.model.gradient_checkpointing else 'off'}) {need.activations / GIB:.1f}"
    )
    if sum(need) > at_hand:
        shards = "a machine with GPUs" if device.type == "cpu" else "trainer=fsdp" + " on several GPUs" * (ranks == 1)
        adapters = "" if config.model.lora_rank else "model.lora_rank=16 (adapters and the head alone are trained), "
        raise ValueError(
            f"model={config.model.name}: a step takes {sum(need) / GIB:.1f} GiB{share} (weights, gradients and "
            f"optimizer {need.state / GIB:.1f}), and {device.type} has {at_hand / GIB:.1f}; "
            f"use {shards}, {adapters}or a smaller model"
        )


def memory_of(device: torch.device) -> int:
    """Bytes that a CUDA device has in all, the same on every process; on any other, what the machine has available."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return int(psutil.virtual_memory().available)


def keep_frozen_states(config: TrainConfig, model: RewardModel) -> None:
    """Have frozen layers run once for each beginning of a sequence, where there are any and it is not switched off.

    Room is half of the machine's memory that is left of a forward pass.
    """
    settings, backbone = config.model, without_lora_wrapper(model.backbone)
    # Only a head that reads every token, and so prunes no last layer, can do without a layer of its own.
    layers = min(settings.freeze_layers, len(backbone.layers) - int(model.prunes))
    if settings.kept_states == "off" or layers < 1 or config.trainer.strategy == "fsdp":  # a shard has no whole layer
        return
    if not model.reads_forests:
        rank_zero_only(log.info)("frozen layers: run at every pass, %s is not known to split", type(backbone).__name__)
        return
    need = training_need(backbone, config.batching.tokens, mixed=config.trainer.precision == "bf16-mixed")
    room = max(0, memory_of(torch.device("cpu")) - sum(need)) / 2 / config.trainer.devices
    model.frozen = FrozenLayers(backbone, layers, budget=int(room), dtype=getattr(torch, settings.kept_states))
    rank_zero_only(log.info)(
        f"frozen layers: states of {layers} layers are stored ({settings.kept_states}) in memory, room for "
        f"{room / 1e9:.1f} GB a process; model.kept_states=off computes them anew"
    )
