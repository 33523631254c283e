"""The customizable reward model. In: a padded or packed batch. Out: preference logits and scores, one forward pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from crm.model.attention.frozen_layers import FrozenLayers, forest_inputs
from crm.model.attention.last_layer import is_known, prune_last_layer
from crm.model.attention.tree_attention import use_tree_attention
from crm.model.batching.batches import PaddedBatch
from crm.model.batching.forest_batches import ForestBatch
from crm.model.batching.padding_batches import Batch
from crm.model.encoding import HeadName
from crm.model.heads import HeadOutput, read_head


class RewardModel(nn.Module):
    """A transformer backbone and the ``score`` layer of one head.

    The backbone is any causal decoder of transformers without its language-model head; H is its hidden size.
    """

    def __init__(self, backbone: PreTrainedModel, score: nn.Linear, head: HeadName) -> None:
        super().__init__()
        self.backbone = backbone
        self.score = score
        self.head = head
        self.reads_forests = all(is_known(layer) for layer in backbone.layers)  # type: ignore[union-attr]
        """Whether `ForestBatch` can be read; of other architectures only padded batches are."""
        if self.reads_forests:
            use_tree_attention(backbone)
        self.prunes = prune_last_layer(backbone)
        self.frozen: FrozenLayers | None = None
        """Where set, what the lowest layers give is kept and only those above are run anew."""

    def forward(self, batch: Batch) -> HeadOutput:
        """Logits (B,) for the response **shown first**; multiply by ``batch.sign`` for the record's response A."""
        states = self._read_forest(batch) if isinstance(batch, ForestBatch) else self._read_padded(batch)
        return read_head(self.head, self.score, states)

    def _read_padded(self, batch: PaddedBatch) -> torch.Tensor:
        """(B, 2, H): states at the read positions."""
        inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask, "use_cache": False}
        if not self.prunes:
            return self._states(batch, **inputs)[batch.rows, batch.positions]
        reads = torch.zeros(len(batch.input_ids), 2, dtype=torch.int64, device=batch.rows.device)
        slots = torch.arange(2, device=reads.device).expand_as(batch.rows)
        reads[batch.rows, slots] = batch.positions
        return self._states(batch, **inputs, read_positions=reads)[batch.rows, slots]

    def _read_forest(self, batch: ForestBatch) -> torch.Tensor:
        """(B, 2, H): states at the read tokens."""
        if not self.reads_forests:
            raise ValueError(f"batching: {type(self.backbone).__name__} is not known to pack; use batching=padded")
        inputs = forest_inputs(batch.input_ids, batch.position_ids, batch.tree_mask)
        if not self.prunes:
            return self._states(batch, **inputs)[0, batch.read_tokens][batch.reads]
        reads = {"read_positions": batch.read_tokens[None], "read_mask": batch.read_mask}
        return self._states(batch, **inputs, **reads)[0, batch.reads]

    def _states(self, batch: Batch, **inputs: Any) -> torch.Tensor:
        """(S, T, H), or (S, R, H) where only some positions are read."""
        backbone = self.backbone
        if self.frozen is not None:
            backbone = self.frozen.upper
            inputs |= {"input_ids": None, "inputs_embeds": self.frozen.states(batch)}
        states = backbone(**inputs).last_hidden_state
        assert isinstance(states, torch.Tensor)
        return states

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.score.weight.device
