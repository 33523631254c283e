"""A backbone that reads responses with its lowest layers and criteria with all. In: a batch. Out: states of both.

Responses are many and long, criteria few and short: what a bank costs is the first number of layers, how well a wish is
understood depends on the second.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from crm.model.attention.decoder import forest_inputs
from crm.model.attention.frozen_layers import FrozenLayers, nodes_of, part_of, restricted
from crm.model.batching.batches import PaddedBatch
from crm.model.batching.forest import Forest, Node
from crm.model.batching.packs import ForestBatch
from crm.model.batching.tree_mask import full_mask


class TwoDepths:
    """``lower`` and ``upper`` together are the backbone; both share its layers, neither is a part of the model.

    Raises ``ValueError`` where ``response_layers`` are not fewer than the backbone has.
    """

    def __init__(self, backbone: Any, response_layers: int) -> None:
        layers = len(backbone.layers)
        if not 1 <= response_layers < layers:
            raise ValueError(
                f"head.response_layers={response_layers}: the backbone has {layers} layers; use 1 to {layers - 1}, or "
                "null where all of them read responses"
            )
        self.lower = part_of(backbone, backbone.layers[:response_layers], nn.Identity())
        self.upper = part_of(backbone, backbone.layers[response_layers:], backbone.norm)
        self.kept: tuple[FrozenLayers, FrozenLayers] | None = None
        """Where the whole backbone is frozen: of responses and of criteria, what is run once for each text."""

    def run(self, batch: PaddedBatch | ForestBatch) -> tuple[Tensor, Tensor]:
        """(M, H) each: states of all tokens after the lowest layers, and after all those of criteria; others are 0."""
        assert batch.texts is not None
        if isinstance(batch, ForestBatch):
            inputs = forest_inputs(batch.input_ids, batch.position_ids, batch.tree_mask)
        else:
            inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask, "use_cache": False}
        low = self.lower(**inputs).last_hidden_state
        nodes, flat = nodes_of(batch), low.flatten(0, 1)
        needed = sorted({index for node in ends_in(nodes, batch.texts.criteria) for index in node.path})
        if not needed:
            return flat, torch.zeros_like(flat)
        part, tokens = restricted(nodes, needed)
        tokens = tokens.to(low.device)
        if isinstance(batch, ForestBatch):
            tree_mask = full_mask(Forest([], [], part, [])).to(low.device)
            inputs = forest_inputs(batch.input_ids[:, tokens], batch.position_ids[:, tokens], tree_mask)
            found = self.upper(**(inputs | {"input_ids": None, "inputs_embeds": low[:, tokens]})).last_hidden_state[0]
        else:
            mask = batch.attention_mask[needed]
            states = self.upper(inputs_embeds=low[needed], attention_mask=mask, use_cache=False).last_hidden_state
            found = states[mask.bool()]
        return flat, torch.zeros_like(flat).index_copy(0, tokens, found.to(flat.dtype))

    def kept_states(self, batch: PaddedBatch | ForestBatch) -> tuple[Tensor, Tensor]:
        """(M, H) each, without gradient: the first where tokens are of responses, the second where of criteria."""
        assert self.kept is not None and batch.texts is not None
        nodes = nodes_of(batch)
        of_responses, of_criteria = (
            kept.states(batch, ends_in(nodes, texts)).flatten(0, 1)
            for kept, texts in zip(self.kept, (batch.texts.responses, batch.texts.criteria), strict=True)
        )
        with torch.no_grad():
            return of_responses, self.upper.norm(of_criteria)


def ends_in(nodes: Sequence[Node], texts: Sequence[Tensor]) -> list[Node]:
    """The nodes (in the order of their first tokens) in which texts end, given as groups of places, (texts, L) each."""
    starts = [node.start for node in nodes]
    ends = {int(place) for group in texts for place in group.max(dim=1).values.tolist()}
    return [nodes[index] for index in sorted({bisect_right(starts, end) - 1 for end in ends})]
