"""Lowest layers that are not trained, run once. In: batches. Out: what these layers give, kept for the next time.

The backbone is run in two parts, neither of them changed: the embedding and the lowest layers without gradient, only
for tokens that are not kept yet, and the layers above on the result. Both parts share their layers with the backbone.
They are no part of the model: no weight gets another name, and nothing that is kept is saved or exported.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from crm.model.attention.decoder import forest_inputs
from crm.model.attention.frozen_states import UNKNOWN, FrozenStates
from crm.model.batching.batches import PaddedBatch
from crm.model.batching.forest import Forest, Node
from crm.model.batching.packs import ForestBatch
from crm.model.batching.tree_mask import full_mask

log = logging.getLogger(__name__)


@dataclass
class TokenCounts:
    """Tokens of all batches so far."""

    read: int = 0
    """Padding left out."""
    computed: int = 0
    """Of these, sent through the frozen layers: at first sight, without room, or with a token after them that was."""
    without_room: int = 0
    """Of these, not kept."""


class FrozenLayers:
    """The lowest ``layers`` of a backbone of a known architecture (`decoder.is_known`), and the rest.

    They are run in eval mode, without dropout, in training too: what is kept is not drawn. One layer at least is left
    above, where a head reads at single tokens, unless the ``whole`` backbone may be kept. ``kept`` is filled as batches
    come. Raises ``ValueError`` where a weight below is trained, or nothing is left to keep.
    """

    def __init__(self, backbone: Any, layers: int, kept: FrozenStates, *, whole: bool = False) -> None:
        layers = most_frozen(backbone, layers, whole=whole)
        if layers < 1:
            raise ValueError(f"model.freeze_layers={layers}: no layer below the last one; use model.kept_states=off")
        self.lower = part_of(backbone, backbone.layers[:layers], nn.Identity())
        self.upper = part_of(backbone, backbone.layers[layers:], backbone.norm)
        trained = [name for name, weight in self.lower.named_parameters() if weight.requires_grad]
        if trained:
            raise ValueError(f"model.kept_states: {trained[0]} is trained, so its states change; use off")
        self.kept = kept
        self.counts = TokenCounts()

    def states(self, batch: PaddedBatch | ForestBatch, wanted: Sequence[Node] | None = None) -> Tensor:
        """What the frozen layers give for ``input_ids`` (S, T): (S, T, H) without gradient, 0 on padding.

        With ``wanted`` nodes only these and their ancestors are computed; others are 0, unless they are kept.
        """
        ids: list[int] = batch.input_ids.flatten().tolist()
        nodes = nodes_of(batch)
        slots = torch.tensor(self.kept.find(ids, nodes))
        wanted = nodes if wanted is None else wanted
        unfinished = [node for node in wanted if slots[node.start + node.length - 1] == UNKNOWN]
        needed = sorted({index for node in unfinished for index in node.path})
        device, known = batch.input_ids.device, (slots != UNKNOWN).nonzero().squeeze(1)
        states = torch.zeros(len(ids), self.kept.width, device=device)
        if needed:
            part, tokens = restricted(nodes, needed)
            fresh = self._computed(batch, part, tokens, needed)
            states[tokens] = fresh
            self._keep([ids[token] for token in tokens.tolist()], part, fresh)
        states[known] = self.kept.read(slots[known]).to(device)
        self.counts.read += batch.tokens
        return states.view(*batch.input_ids.shape, -1)

    @torch.no_grad()
    def _computed(
        self, batch: PaddedBatch | ForestBatch, part: list[Node], tokens: Tensor, needed: list[int]
    ) -> Tensor:
        """(M, H) float32: states of ``tokens``, which are those of the nodes ``needed``.

        Rounded to what is kept, so that a step does not depend on what had been kept before it.
        """
        self.lower.eval()
        if isinstance(batch, ForestBatch):
            whole = len(needed) == len(batch.nodes)
            tree_mask = batch.tree_mask if whole else full_mask(Forest([], [], part, [])).to(batch.input_ids.device)
            inputs = forest_inputs(batch.input_ids[:, tokens], batch.position_ids[:, tokens], tree_mask)
            states: Tensor = self.lower(**inputs).last_hidden_state[0]
        else:
            mask = batch.attention_mask[needed]
            inputs = {"input_ids": batch.input_ids[needed], "attention_mask": mask, "use_cache": False}
            states = self.lower(**inputs).last_hidden_state[mask.bool()]
        return states.to(self.kept.dtype).float()

    def _keep(self, ids: Sequence[int], part: Sequence[Node], fresh: Tensor) -> None:
        without_room = self.kept.add(ids, part, fresh)
        if without_room and not self.counts.without_room:
            log.warning(
                "kept states: the room for %d tokens (%.2f GB) is full; states of others are computed anew each time",
                len(self.kept),
                len(self.kept) * self.kept.token_bytes / 1e9,
            )
        self.counts.computed += len(ids)
        self.counts.without_room += without_room


def freeze_lower_layers(model: PreTrainedModel, layers: int) -> None:
    """Stop training the embedding and the lowest ``layers`` transformer layers, of all of them the norm too.

    0 changes nothing.
    """
    if layers == 0:
        return
    blocks = model.layers
    assert isinstance(blocks, nn.ModuleList)
    if layers > len(blocks):
        raise ValueError(f"model.freeze_layers={layers}: the backbone has {len(blocks)} layers")
    frozen = [model] if layers == len(blocks) else [model.get_input_embeddings(), *blocks[:layers]]
    for module in frozen:
        module.requires_grad_(False)


def most_frozen(backbone: Any, layers: int, *, whole: bool) -> int:
    """How many of the lowest ``layers`` can be kept."""
    return min(layers, len(backbone.layers) - (not whole))


def part_of(backbone: Any, layers: Any, norm: nn.Module) -> Any:
    """The backbone with other layers and norm; all it has beside these is shared."""
    part = copy.copy(backbone)
    part._modules = {**backbone._modules, "layers": layers, "norm": norm}
    return part


def nodes_of(batch: PaddedBatch | ForestBatch) -> list[Node]:
    """Of a padded batch a node for each row, padding left out; ``start`` counts in the flattened rows."""
    if isinstance(batch, ForestBatch):
        return batch.nodes
    width = batch.input_ids.shape[1]
    lengths = batch.attention_mask.sum(dim=1).tolist()
    return [Node(row * width, length, 0, (row,)) for row, length in enumerate(lengths)]


def restricted(nodes: Sequence[Node], chosen: Sequence[int]) -> tuple[list[Node], Tensor]:
    """The ``chosen`` nodes (ascending, ancestors among them) as a row of their own, and (M,) where its tokens lay."""
    number = {index: new for new, index in enumerate(chosen)}
    part: list[Node] = []
    start = 0
    for node in (nodes[index] for index in chosen):
        part.append(Node(start, node.length, node.depth, tuple(number[above] for above in node.path)))
        start += node.length
    return part, torch.cat([torch.arange(nodes[i].start, nodes[i].start + nodes[i].length) for i in chosen])
