"""Arithmetic that training takes. In: a reward model. Out: FLOPs a token and a pair of tokens that attend.

Counted as model FLOPs: what the mathematics of a step needs. A multiplication and an addition are 2. What gradient
checkpointing computes again is not counted, nor norms, activations and the head.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from crm.model.reward_model import RewardModel
from crm.training.memory import layers_with_gradient


@dataclass(frozen=True)
class StepFlops:
    """Forward and backward pass; multiply by what a batch holds."""

    per_token: int
    """Of the linear layers, for each token."""
    per_pair: int
    """Of attention, for each (query, key) of a sequence with key <= query."""

    def of(self, tokens: int, pairs: int) -> int:
        """FLOPs of a batch of ``tokens`` with ``pairs`` attended."""
        return self.per_token * tokens + self.per_pair * pairs


def step_flops(model: RewardModel) -> StepFlops:
    """What a step of ``model`` takes.

    A linear weight costs 2 FLOPs a token forward, 2 more for its own gradient where it is trained, and 2 more for the
    gradient of its input in every layer from the lowest trained one upwards: 6 in full training. Attention costs
    4 * heads * head size a pair forward and twice that backward. Of a pruned last layer only keys and values count.
    """
    layers = model.backbone.layers
    assert isinstance(layers, nn.ModuleList)
    config = model.backbone.config
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    lowest = len(layers) - layers_with_gradient(model.backbone)
    per_token = per_pair = 0
    for index, layer in enumerate(layers):
        pruned = model.prunes and index == len(layers) - 1
        passes = 2 if index >= lowest else 0
        for name, module in layer.named_modules():
            if isinstance(module, nn.Linear) and (not pruned or "k_proj" in name or "v_proj" in name):
                per_token += module.weight.numel() * (2 + passes + 2 * module.weight.requires_grad)
        if not pruned:
            per_pair += 4 * config.num_attention_heads * size * (1 + passes)
    return StepFlops(per_token, per_pair)
