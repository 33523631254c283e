"""An estimate of a training step's memory, and the settings that follow from it.

Kernels, allocators and attention masks differ, so that a step may need more or less.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch
from lightning.pytorch.utilities import rank_zero_only
from torch import nn

from crm.model.attention.frozen_layers import FrozenLayers, freeze_lower_layers, most_frozen
from crm.model.attention.frozen_states import FrozenStates
from crm.model.backbone import add_lora, empty_backbone, keep_lowest_layers, without_lora_wrapper
from crm.model.reward_model import RewardModel
from crm.training.config import TrainConfig
from crm.training.devices import enable_checkpointing, training_device

log = logging.getLogger(__name__)

TRAINED_BYTES = 16
"""A trained parameter in float32: weight 4, gradient 4, AdamW's two moments 8."""
FROZEN_BYTES = 4
USABLE = 0.9
"""Share of the memory at hand that may be planned for; the rest is for kernels' own needs and fragmentation."""
GIB = 2**30
OF_CRITERIA = 0.25
"""Share of the room for kept states that criteria have where responses are read by fewer layers."""


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
    """Replace ``trainer.strategy=auto`` and check that the state fits, both before any weight is loaded.

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
        config.check_sharded()
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


def settle_checkpointing(config: TrainConfig, model: RewardModel, tokens: int) -> bool:
    """Switch gradient checkpointing on where it is asked for, or ``auto`` finds too little memory for ``tokens``."""
    wanted, backbone = config.model.gradient_checkpointing, without_lora_wrapper(model.backbone)
    if wanted == "auto":
        settings, device = config.trainer, training_device(config.trainer.accelerator)
        ranks, mixed = settings.devices * settings.nodes, settings.precision == "bf16-mixed"
        places = {"shards": ranks} if settings.strategy == "fsdp" else {"replicas": ranks}
        need, at_hand = training_need(backbone, tokens, mixed=mixed, **places).total, memory_at_hand(device)
        wanted = need > USABLE * at_hand
        if need > GIB:
            rank_zero_only(log.info)(
                f"memory: a training step needs about {need / GIB:.1f} GiB, {at_hand / GIB:.1f} at hand on {device}: "
                f"gradient checkpointing {'on' if wanted else 'off'} (model.gradient_checkpointing=auto)"
            )
    if wanted:
        enable_checkpointing(backbone)
    return bool(wanted)


def keep_frozen_states(config: TrainConfig, model: RewardModel, tokens: int, run_dir: Path) -> None:
    """Have frozen layers run once for each beginning of a sequence, where there are any and it is not switched off.

    Room is half of the memory that is left of a step on ``tokens``, or half of the disk's, unless a number is given.
    """
    settings, backbone = config.model, without_lora_wrapper(model.backbone)
    whole = not model.prunes  # such a head reads every token
    layers = most_frozen(backbone, settings.freeze_layers, whole=whole)
    partly = model.depths is not None and layers < len(backbone.layers)  # a layer that is trained may read responses
    if settings.kept_states == "off" or layers < 1 or partly:
        return
    if not model.reads_forests:
        rank_zero_only(log.info)("frozen layers: run at every pass, %s is not known to split", type(backbone).__name__)
        return
    room = _room_for_states(config, backbone, tokens, run_dir) / config.trainer.devices

    def keeping(layers: int, share: float) -> FrozenLayers:
        kept = FrozenStates(
            backbone.config.hidden_size,
            budget=int(room * share),
            dtype=getattr(torch, settings.kept_states_dtype),
            folder=run_dir if settings.kept_states == "disk" else None,
        )
        return FrozenLayers(backbone, layers, kept, whole=whole)

    if model.depths is None:
        model.frozen = keeping(layers, 1.0)
    else:
        of_responses = len(model.depths.lower.layers)
        model.depths.kept = keeping(of_responses, 1 - OF_CRITERIA), keeping(layers, OF_CRITERIA)
    rank_zero_only(log.info)(
        f"frozen layers: states of {layers} layers are kept ({settings.kept_states_dtype}) in {settings.kept_states}: "
        f"room for {room / 1e9:.1f} GB, {sum(part.kept.room for part in model.keeping)} tokens a process; "
        "model.kept_states=off computes them anew"
    )


def _room_for_states(config: TrainConfig, backbone: Any, tokens: int, run_dir: Path) -> float:
    """Bytes on this machine."""
    if config.model.kept_states_gb:
        return config.model.kept_states_gb * 1e9
    if config.model.kept_states == "disk":
        return shutil.disk_usage(run_dir).free / 2
    need = training_need(backbone, tokens, mixed=config.trainer.precision == "bf16-mixed").total
    return max(0, memory_at_hand(torch.device("cpu")) - need) / 2


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
