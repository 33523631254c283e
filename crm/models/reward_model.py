"""The customizable reward model. In: a padded batch. Out: preference logits and scores, one forward pass."""

from __future__ import annotations

import torch
from torch import nn
from transformers import PreTrainedModel

from crm.data.batches import PaddedBatch
from crm.data.encoding import HeadName
from crm.models.heads import HeadOutput, read_head
from crm.models.last_layer import prune_last_layer


class RewardModel(nn.Module):
    """A transformer backbone and the ``score`` layer of one head.

    The backbone is any causal decoder of transformers without its language-model head; H is its hidden size.
    """

    def __init__(self, backbone: PreTrainedModel, score: nn.Linear, head: HeadName) -> None:
        super().__init__()
        self.backbone = backbone
        self.score = score
        self.head = head
        self.prunes = prune_last_layer(backbone)

    def forward(self, batch: PaddedBatch) -> HeadOutput:
        """Logits (B,) for the response **shown first**; multiply by ``batch.sign`` for the record's response A."""
        inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask, "use_cache": False}
        if not self.prunes:
            hidden = self.backbone(**inputs).last_hidden_state
            return read_head(self.head, self.score, hidden[batch.rows, batch.positions])
        reads = torch.zeros(len(batch.input_ids), 2, dtype=torch.int64, device=batch.rows.device)
        slots = torch.arange(2, device=reads.device).expand_as(batch.rows)
        reads[batch.rows, slots] = batch.positions
        hidden = self.backbone(**inputs, read_positions=reads).last_hidden_state
        return read_head(self.head, self.score, hidden[batch.rows, slots])

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.score.weight.device
