"""The customizable reward model, from a batch to preference logits and scores."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from transformers import PreTrainedModel

from crm.model.attention.decoder import forest_inputs, is_known, prune_last_layer, use_tree_attention
from crm.model.attention.frozen_layers import FrozenLayers
from crm.model.batching.batches import Batch, ForestBatch, PaddedBatch
from crm.model.heads import HeadOutput, head_named
from crm.model.late_head import LateHead


def build_score(
    head: str, hidden_size: int, seed: int, start: nn.Module | None = None, **sizes: int | None
) -> nn.Module:
    """The layer of a head, initialised from ``seed`` alone: linear, or a `LateHead` of these ``sizes``.

    A head of two spans starts with two equal rows, so that at first it reads both spans with one yardstick, as the
    scalar head does; training then lets them part. ``start`` is the layer of a trained head to go on from: its one row
    serves both spans, an equal shape is taken over; a joint head without spans, which reads another state, starts anew.
    A late head goes on as it is. Raises ``ValueError`` where it has other sizes.
    """
    kind = head_named(head)
    if kind.apart:
        given = {name: size for name, size in sizes.items() if size is not None}
        if not isinstance(start, LateHead):
            return LateHead.seeded(hidden_size, seed, **given)
        for name, size in given.items():
            if size != (there := getattr(start, name)):
                why = f"head.{name}={size}: the head to go on from has {there}; set that, or start from a backbone"
                raise ValueError(f"{why} without a late head")
        return start
    score = nn.Linear(hidden_size, kind.outputs, bias=False)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        score.weight.normal_(0.0, hidden_size**-0.5, generator=generator)
        if kind.spans:
            score.weight[:] = score.weight[:1].clone()
        reads_last_of_both = kind.joint and not kind.spans
        if isinstance(start, nn.Linear) and start.out_features in (1, score.out_features) and not reads_last_of_both:
            score.weight.copy_(start.weight.expand_as(score.weight))
    return score


def read_head(head: str, score: nn.Module, states: Tensor) -> HeadOutput:
    """Apply a head to ``states`` (B, 2, H), in float32 whatever the precision around it.

    Logits rounded to bfloat16 are equal far more often than responses are.
    """
    with torch.autocast(states.device.type, enabled=False):
        outputs = linear(states.float(), score.weight.float())  # type: ignore[arg-type]
    return head_named(head).combine(outputs)


class RewardModel(nn.Module):
    """A transformer backbone and the ``score`` layer of one head.

    The backbone is any causal decoder of transformers without its language-model head; H is its hidden size.
    """

    def __init__(self, backbone: PreTrainedModel, score: nn.Module, head: str) -> None:
        super().__init__()
        self.backbone = backbone
        self.score = score
        self.head = head
        self.reads_forests = all(is_known(layer) for layer in backbone.layers)  # type: ignore[union-attr]
        """Whether `ForestBatch` can be read; of other architectures only padded batches are."""
        if self.reads_forests:
            use_tree_attention(backbone)
        self.prunes = not head_named(head).apart and prune_last_layer(backbone)
        self.frozen: FrozenLayers | None = None
        """Where set, what these layers give is stored."""

    def forward(self, batch: Batch) -> HeadOutput:
        """Logits (B,) for the response **shown first**; multiply by ``batch.sign`` for the record's response A."""
        if isinstance(self.score, LateHead):
            assert batch.texts is not None, "encoded for another head"
            output: HeadOutput = self.score(self._states(batch).flatten(0, 1), batch.texts)
            return output
        states = self._read_forest(batch) if isinstance(batch, ForestBatch) else self._read_padded(batch)
        return read_head(self.head, self.score, states)

    @torch.no_grad()
    def standardise(self, batch: Batch) -> None:
        """Have a late head standardise states as those of the batch are; other heads read few states and learn it."""
        assert isinstance(self.score, LateHead) and batch.texts is not None
        self.score.standardise(self._states(batch).flatten(0, 1).float(), batch.texts)

    def _read_padded(self, batch: PaddedBatch) -> torch.Tensor:
        """(B, 2, H): states at the read positions."""
        if not self.prunes:
            return self._states(batch)[batch.rows, batch.positions]
        reads = torch.zeros(len(batch.input_ids), 2, dtype=torch.int64, device=batch.rows.device)
        slots = torch.arange(2, device=reads.device).expand_as(batch.rows)
        reads[batch.rows, slots] = batch.positions
        return self._states(batch, read_positions=reads)[batch.rows, slots]

    def _read_forest(self, batch: ForestBatch) -> torch.Tensor:
        """(B, 2, H): states at the read tokens."""
        if not self.prunes:
            return self._states(batch)[0, batch.read_tokens][batch.reads]
        reads = {"read_positions": batch.read_tokens[None], "read_mask": batch.read_mask}
        return self._states(batch, **reads)[0, batch.reads]

    def _states(self, batch: Batch, **reads: Any) -> torch.Tensor:
        """(S, T, H), or (S, R, H) where only some positions are read."""
        backbone: Any = self.backbone
        if isinstance(batch, ForestBatch):
            inputs = forest_inputs(batch.input_ids, batch.position_ids, batch.tree_mask)
        else:
            inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask, "use_cache": False}
        if self.frozen is not None:
            backbone, states = self.frozen.upper, self.frozen.states(batch)
            inputs |= {"input_ids": None, "inputs_embeds": states}
        states = backbone(**inputs, **reads).last_hidden_state
        assert isinstance(states, torch.Tensor)
        return states

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.score.parameters()).device
