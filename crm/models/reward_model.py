"""The customizable reward model. In: a padded or packed batch. Out: preference logits and scores, one forward pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from crm.data.batches import PaddedBatch
from crm.data.encoding import HeadName
from crm.data.even import Batch
from crm.data.forest_batches import ForestBatch
from crm.models.forest_attention import let_see_forests
from crm.models.heads import HeadOutput, read_head
from crm.models.last_layer import is_known, prune_last_layer


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
            let_see_forests(backbone)
        self.prunes = prune_last_layer(backbone)

    def forward(self, batch: Batch) -> HeadOutput:
        """Logits (B,) for the response **shown first**; multiply by ``batch.sign`` for the record's response A."""
        states = self._read_forest(batch) if isinstance(batch, ForestBatch) else self._read_padded(batch)
        return read_head(self.head, self.score, states)

    def _read_padded(self, batch: PaddedBatch) -> torch.Tensor:
        """(B, 2, H): states at the read positions."""
        inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask, "use_cache": False}
        if not self.prunes:
            return self._states(**inputs)[batch.rows, batch.positions]
        reads = torch.zeros(len(batch.input_ids), 2, dtype=torch.int64, device=batch.rows.device)
        slots = torch.arange(2, device=reads.device).expand_as(batch.rows)
        reads[batch.rows, slots] = batch.positions
        return self._states(**inputs, read_positions=reads)[batch.rows, slots]

    def _read_forest(self, batch: ForestBatch) -> torch.Tensor:
        """(B, 2, H): states at the read tokens."""
        if not self.reads_forests:
            raise ValueError(f"batching: {type(self.backbone).__name__} is not known to pack; use batching=padded")
        # A mask of four dimensions keeps transformers from making one of its own; who sees whom is in the sights.
        unused = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=batch.input_ids.device)
        inputs: dict[str, Any] = {
            "input_ids": batch.input_ids,
            "position_ids": batch.position_ids,
            "attention_mask": unused,
        }
        inputs |= {"sight": batch.sight, "use_cache": False}
        if not self.prunes:
            return self._states(**inputs)[0, batch.read_tokens][batch.reads]
        reads = {"read_positions": batch.read_tokens[None], "read_sight": batch.read_sight}
        return self._states(**inputs, **reads)[0, batch.reads]

    def _states(self, **inputs: Any) -> torch.Tensor:
        """(S, T, H), or (S, R, H) where only some positions are read."""
        states = self.backbone(**inputs).last_hidden_state
        assert isinstance(states, torch.Tensor)
        return states

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.score.weight.device
