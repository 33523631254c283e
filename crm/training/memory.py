"""Memory of a training step. In: a backbone and the tokens of a forward pass. Out: bytes, against those at hand.

An estimate for deciding on gradient checkpointing, not a promise: kernels, allocators and attention masks differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psutil
import torch
from torch import nn

TRAINED_BYTES = 16
"""A trained parameter in float32: weight 4, gradient 4, AdamW's two moments 8."""
FROZEN_BYTES = 4
USABLE = 0.9
"""Share of the memory at hand that may be planned for; the rest is for kernels' own needs and fragmentation."""
GIB = 2**30


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes of a training step on one device without gradient checkpointing."""

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


def training_need(backbone: nn.Module, tokens: int, *, mixed: bool, shards: int = 1, replicas: int = 1) -> MemoryNeed:
    """Estimate for ``tokens`` (sequences times padded length) in one forward pass on one device.

    ``mixed`` is bfloat16 arithmetic on float32 weights; it keeps a bfloat16 copy of each linear weight for the
    backward pass. ``shards`` divides the state (FSDP); more than one of ``replicas`` (DDP) adds 4 bytes a trained
    parameter for the buffers in which gradients are exchanged. Layers below the lowest trained one keep nothing.
    """
    trained = sum(p.numel() for p in backbone.parameters() if p.requires_grad)
    frozen = sum(p.numel() for p in backbone.parameters()) - trained
    buffers = 4 * trained if replicas > 1 else 0
    state = (TRAINED_BYTES * trained + FROZEN_BYTES * frozen + buffers) // shards
    linear = sum(module.weight.numel() for module in backbone.modules() if isinstance(module, nn.Linear))
    copies = 2 * linear if mixed else 0
    kept = tokens * layers_with_gradient(backbone) * layer_bytes_per_token(backbone.config, mixed=mixed)
    return MemoryNeed(state, kept + copies)


def layer_bytes_per_token(config: Any, *, mixed: bool) -> int:
    """Bytes that one decoder layer keeps of one token for the backward pass (SDPA attention, padded batch).

    With H hidden size, I intermediate size, A heads * head size, K the same of keys: ``26 H + 8 I + 14 A + 6 K`` in
    bfloat16 arithmetic, ``24 H + 16 I + 24 A + 8 K`` in float32. Residual stream and norms stay float32 in both.
    The factors are those of the tensors that autograd saves in a Qwen3 layer, of which others keep much the same.
    """
    hidden, heads = config.hidden_size, config.num_attention_heads
    size = getattr(config, "head_dim", None) or hidden // heads
    queries, keys = heads * size, (getattr(config, "num_key_value_heads", None) or heads) * size
    inner = getattr(config, "intermediate_size", None) or 4 * hidden
    widths = (hidden, inner, queries, keys)
    factors = (26, 8, 14, 6) if mixed else (24, 16, 24, 8)
    return sum(factor * width for factor, width in zip(factors, widths, strict=True))


def layers_with_gradient(backbone: Any) -> int:
    """How many decoder layers a gradient passes through: those from the lowest trained weight upwards."""
    if any(p.requires_grad for p in backbone.get_input_embeddings().parameters()):
        return len(backbone.layers)
    trained = [index for index, layer in enumerate(backbone.layers) if any(p.requires_grad for p in layer.parameters())]
    return len(backbone.layers) - trained[0] if trained else 0


def memory_at_hand(device: torch.device) -> int:
    """Bytes free on a CUDA device; on any other, the machine's memory that is available."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(psutil.virtual_memory().available)
