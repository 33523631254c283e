"""Memory of a training step: its bytes on one device, and what follows from them.

An estimate for deciding on gradient checkpointing, not a promise: kernels, allocators and attention masks differ.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psutil
import torch
from lightning.pytorch.utilities import rank_zero_only
from torch import nn

from crm.model.attention.frozen_layers import freeze_lower_layers
from crm.model.backbone import add_lora, empty_backbone, keep_lowest_layers
from crm.training.config import TrainConfig
from crm.training.devices import training_device

log = logging.getLogger(__name__)

TRAINED_BYTES = 16
"""A trained parameter in float32: weight 4, gradient 4, AdamW's two moments 8."""
FROZEN_BYTES = 4
USABLE = 0.9
"""Share of the memory at hand that may be planned for; the rest is for kernels' own needs and fragmentation."""
GIB = 2**30


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes of a training step on one device."""

    state: int
    """Weights, gradients, optimizer."""
    activations: int
    """What the layers keep for the backward pass."""

    @property
    def total(self) -> int:
        """All of it."""
        return self.state + self.activations

    def fits(self, at_hand: int) -> bool:
        """Whether it stays within `USABLE` of the ``at_hand`` bytes."""
        return self.total <= USABLE * at_hand

    def told(self, at_hand: int, where: str) -> str:
        """Estimate, memory and decision as one line."""
        needed = f"{self.total / GIB:.1f} GiB (state {self.state / GIB:.1f}, activations {self.activations / GIB:.1f})"
        decision = "off" if self.fits(at_hand) else "on"
        return (
            f"memory: a training step needs about {needed}, {at_hand / GIB:.1f} GiB at hand on {where}: "
            f"gradient checkpointing {decision} (model.gradient_checkpointing=auto)"
        )


def training_need(
    backbone: nn.Module, tokens: int, *, mixed: bool, shards: int = 1, replicas: int = 1, checkpointing: bool = False
) -> MemoryNeed:
    """Estimate for ``tokens`` (sequences times padded length) in one forward pass on one device.

    ``mixed`` is bfloat16 arithmetic on float32 weights, of which autocast keeps bfloat16 copies: all that a layer reads
    until its backward pass and, with ``checkpointing``, all that are trained until the forward pass ends. ``shards``
    divides the state (FSDP2), needs no such copies, and gathers the embedding, for a moment twice. More than one of
    ``replicas`` (DDP) adds 4 bytes a trained parameter for the buffers in which gradients are exchanged. Layers below
    the lowest trained one keep nothing. With ``checkpointing`` a layer keeps its input, and one at a time all it needs
    and a quarter more for gradients within it.
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
    layer = tokens * layer_bytes_per_token(backbone.config, mixed=mixed, sharded=sharded)
    if not checkpointing:
        return MemoryNeed(state, layers * layer + copies + 2 * gathered)
    inputs = width * tokens * layers * int(backbone.config.hidden_size)  # type: ignore[union-attr, arg-type]
    one = min(1, layers) * 5 * layer // 4 + copies // max(1, len(backbone.layers))  # type: ignore[arg-type]
    cached = 2 * sum(weight.numel() for weight in weights if weight.requires_grad)
    return MemoryNeed(state, inputs + gathered + max(one, gathered, cached))


def settle_strategy(config: TrainConfig) -> None:
    """Replace ``trainer.strategy=auto`` and refuse a state that cannot fit, both before any weight is loaded.

    What a device needs with gradient checkpointing is computed from the shapes of the backbone. Several devices become
    DDP where it fits on each, else FSDP2. Raises ``ValueError`` naming what does fit.
    """
    settings, ranks = config.trainer, int(config.trainer.devices) * int(config.trainer.nodes)
    if config.model.path is None:
        if settings.strategy == "auto" and ranks > 1:
            settings.strategy = "ddp"
        return
    backbone, device = _shapes(config), training_device(settings.accelerator)
    at_hand, tokens = memory_of(device), config.batching.tokens

    def need_of(strategy: str, checkpointing: bool = True) -> MemoryNeed:
        places = {"shards": ranks} if strategy == "fsdp" else {"replicas": ranks}
        mixed = settings.precision == "bf16-mixed"
        return training_need(backbone, tokens, mixed=mixed, checkpointing=checkpointing, **places)

    needs = {"ddp": need_of("ddp")}
    if ranks > 1 and config.optimizer.name != "muon":
        needs["fsdp"] = need_of("fsdp")
    if settings.strategy == "auto" and ranks > 1:
        fits = needs["ddp"].fits(at_hand) or "fsdp" not in needs
        settings.strategy = "ddp" if fits else "fsdp"
        config.refuse_sharded()
    used = settings.strategy if settings.strategy in needs else "ddp"
    need, share = needs[used], " a device" if ranks > 1 else ""
    rank_zero_only(log.info)(
        f"memory: weights, gradients and optimizer take {need.state / GIB:.1f} GiB{share} "
        f"({settings.strategy if ranks > 1 else 'whole'} on {ranks} {device.type}), of {at_hand / GIB:.1f} GiB{share}; "
        f"activations of a pass of {tokens:,} tokens {need_of(used, False).activations / GIB:.1f} GiB, "
        f"with gradient checkpointing {need.activations / GIB:.1f}"
    )
    if need.total > at_hand:
        raise ValueError(
            f"model={config.model.name}: a step takes {need.total / GIB:.1f} GiB{share} (weights, gradients and "
            f"optimizer {need.state / GIB:.1f}), and {device.type} has {at_hand / GIB:.1f}; "
            f"{_way_out(config, needs, at_hand, ranks)}"
        )


def _way_out(config: TrainConfig, needs: Mapping[str, MemoryNeed], at_hand: int, ranks: int) -> str:
    """What to type where the state does not fit: sharding, adapters, a smaller model, another machine."""
    ways = []
    if config.trainer.strategy != "fsdp" and "fsdp" in needs and needs["fsdp"].fits(at_hand):
        ways.append("trainer=fsdp")
    if config.trainer.accelerator == "cpu":
        ways.append("a machine with GPUs")
    elif ranks == 1:
        ways.append("trainer=fsdp on several GPUs")
    if not config.model.lora_rank:
        ways.append("model.lora_rank=16 (adapters and the head alone are trained)")
    return f"use {', '.join([*ways, 'a smaller model'])}"


def _shapes(config: TrainConfig) -> Any:
    """The backbone without weights, on the meta device, with what is frozen and adapted as configured."""
    settings = config.model
    backbone: Any = empty_backbone(str(settings.path), settings.revision)
    keep_lowest_layers(backbone, settings.use_layers)
    freeze_lower_layers(backbone, settings.freeze_layers)
    if settings.lora_rank:
        with torch.device("meta"):
            add_lora(backbone, settings.lora_rank, settings.lora_alpha, settings.lora_dropout, settings.freeze_layers)
    return backbone


def layer_bytes_per_token(config: Any, *, mixed: bool, sharded: bool = False) -> int:
    """Bytes that one decoder layer keeps of one token for the backward pass (SDPA attention, padded batch).

    With H hidden size, I intermediate size, A heads * head size, K the same of keys: ``26 H + 8 I + 14 A + 6 K`` in
    bfloat16 arithmetic, ``24 H + 16 I + 24 A + 8 K`` in float32. Residual stream and norms stay float32 in both; if
    ``sharded`` (FSDP2) they are bfloat16 too, ``18 H + 8 I + 12 A + 8 K``.
    The factors are those of the tensors that autograd saves in a Qwen3 layer, of which others keep much the same.
    """
    hidden, heads = config.hidden_size, config.num_attention_heads
    size = getattr(config, "head_dim", None) or hidden // heads
    queries, keys = heads * size, (getattr(config, "num_key_value_heads", None) or heads) * size
    inner = getattr(config, "intermediate_size", None) or 4 * hidden
    widths = (hidden, inner, queries, keys)
    factors = ((18, 8, 12, 8) if sharded else (26, 8, 14, 6)) if mixed else (24, 16, 24, 8)
    return sum(factor * width for factor, width in zip(factors, widths, strict=True))


def layers_with_gradient(backbone: Any) -> int:
    """How many decoder layers a gradient passes through: those from the lowest trained weight upwards."""
    if any(p.requires_grad for p in backbone.get_input_embeddings().parameters()):
        return len(backbone.layers)
    trained = [index for index, layer in enumerate(backbone.layers) if any(p.requires_grad for p in layer.parameters())]
    return len(backbone.layers) - trained[0] if trained else 0


def memory_of(device: torch.device) -> int:
    """Bytes that a CUDA device has in all, the same on every process; on any other, what the machine has available."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return memory_at_hand(device)


def memory_at_hand(device: torch.device) -> int:
    """Bytes free on a CUDA device; on any other, the machine's memory that is available."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)
