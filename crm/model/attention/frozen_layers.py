"""Layers that are not trained, run once for each sequence.

What such a layer gives for a sequence never changes, so its output is stored by token ids. The backbone is run in two
parts which share its layers: the embedding and the lowest layers without gradient, only for sequences that are not
stored yet, and the layers above on the result. Neither part is a module of the model: no weight gets another name, and
nothing that is stored is saved or exported.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from crm.model.attention.decoder import read_forest
from crm.model.batching.batches import Batch, ForestBatch

log = logging.getLogger(__name__)
INDEX_BYTES = 40
"""A token's id in the key of its sequence: a pointer and an integer."""


class FrozenLayers:
    """The lowest ``layers`` of a backbone of a known architecture (`decoder.is_known`), none of them trained.

    They are run in eval mode, without dropout, in training too: what is stored is not drawn. Sequences are stored in
    ``dtype`` as they come, as many as fit ``budget`` bytes. ``upper`` are the layers above, on which a model goes on
    from `states`.
    """

    def __init__(self, backbone: Any, layers: int, *, budget: int, dtype: torch.dtype = torch.float32) -> None:
        self.lower, self.upper = split_at(backbone, layers)
        self.room, self.dtype = budget, dtype
        self.stored: dict[tuple[int, ...], Tensor] = {}
        self._warned = False

    @torch.no_grad()
    def states(self, batch: Batch) -> Tensor:
        """What the frozen layers give for ``input_ids`` (S, T): (S, T, H) without gradient, 0 on padding."""
        places, ids = sequences_of(batch), batch.input_ids.flatten().cpu()
        texts = [tuple(ids[place].tolist()) for place in places]
        computed = self._compute([text for text in texts if text not in self.stored])
        found = [computed[text] if text in computed else self.stored[text] for text in texts]
        states = torch.zeros(len(ids), found[0].shape[1], device=batch.input_ids.device)
        states[torch.cat(places).to(states.device)] = torch.cat(found).to(states)
        self._store(computed)
        return states.view(*batch.input_ids.shape, -1)

    def _compute(self, texts: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], Tensor]:
        """(L, H) of each text on the CPU, rounded as it is stored: a step does not depend on what was stored before."""
        if not texts:
            return {}
        forest, states = read_forest(self.lower.eval(), texts)
        states = states.to("cpu", self.dtype)
        ends = zip(texts, forest.leaf_of, strict=True)
        return {text: states[list(forest.places(leaf, 0, len(text)))] for text, leaf in ends}

    def _store(self, computed: dict[tuple[int, ...], Tensor]) -> None:
        for text, states in computed.items():
            size = states.nbytes + INDEX_BYTES * len(text)
            if size <= self.room:
                self.stored[text] = states
                self.room -= size
            elif not self._warned:
                self._warned = True
                log.warning(
                    "frozen layers: the room is full with %d sequences; states of others are computed anew each time",
                    len(self.stored),
                )


def split_at(backbone: Any, layers: int) -> tuple[Any, Any]:
    """The lowest ``layers`` without a norm, and those above with it; they share all else that the backbone has."""
    lower, upper = (copy.deepcopy(backbone, {id(part): part for part in backbone.children()}) for _ in range(2))
    lower.layers, lower.norm, upper.layers = backbone.layers[:layers], nn.Identity(), backbone.layers[layers:]
    return lower, upper


def sequences_of(batch: Batch) -> list[Tensor]:
    """Where in the flattened batch the tokens of each sequence lie; one that others begin with is part of them."""
    if not isinstance(batch, ForestBatch):
        return [row.nonzero()[:, 0] + index * len(row) for index, row in enumerate(batch.attention_mask.cpu())]
    nodes = batch.nodes
    inner = {above for node in nodes for above in node.path[:-1]}
    leaves = [node for index, node in enumerate(nodes) if index not in inner and node.start < batch.tokens]
    runs = ([nodes[index] for index in leaf.path] for leaf in leaves)
    return [torch.cat([torch.arange(node.start, node.start + node.length) for node in path]) for path in runs]
