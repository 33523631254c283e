"""Layers that are not trained, run once for each beginning of a sequence.

What such a layer gives for a token depends on that token and those before it alone, so its output is kept in a tree of
tokens. The backbone is run in two parts which share its layers: the embedding and the lowest layers without gradient,
only for tokens that are not kept yet, and the layers above on the result. Neither part is a module of the model: no
weight gets another name, and nothing that is kept is saved or exported.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from crm.model.attention.decoder import forest_inputs
from crm.model.batching.batches import Batch, ForestBatch
from crm.model.batching.forest import Forest, Node, full_mask

log = logging.getLogger(__name__)
INDEX_BYTES = 160
"""A token's entry in the tree: two integers and its place in a dictionary (measured)."""
ROOT, NO_ROOM = 0, -1


class FrozenStates:
    """States (H,) of as many tokens as fit ``budget`` bytes; nothing is replaced once it is full.

    ``dtype`` float32 gives back what was put in; bfloat16 takes half of the memory and keeps 8 significant bits.
    """

    def __init__(self, width: int, *, budget: int, dtype: torch.dtype = torch.float32) -> None:
        self.width, self.dtype = width, dtype
        self.token_bytes = width * dtype.itemsize + INDEX_BYTES
        self.capacity = budget // self.token_bytes
        self._slot_below: dict[int, int] = {}  # slot of the token before and token id, in one number; slots from 1
        self._states = torch.empty(self.capacity, width, dtype=dtype)  # memory is taken page by page as it is written

    def __len__(self) -> int:
        return len(self._slot_below)

    def slots(self, ids: Sequence[int], nodes: Sequence[Node]) -> tuple[Tensor, list[int]]:
        """(N,) the slot of each of N ``ids``, -1 without room; and tokens new here, whose states are to be written.

        Of ``nodes`` a parent comes before its children.
        """
        slots, new = [NO_ROOM] * len(ids), []
        for node in nodes:
            slot = ROOT
            if len(node.path) > 1:
                parent = nodes[node.path[-2]]
                slot = slots[parent.start + parent.length - 1]
            for token in range(node.start, node.start + node.length):
                if slot == NO_ROOM:
                    break
                key = slot << 32 | ids[token]
                if key not in self._slot_below and len(self) < self.capacity:
                    self._slot_below[key] = len(self) + 1
                    new.append(token)
                slot = slots[token] = self._slot_below.get(key, NO_ROOM)
        return torch.tensor(slots), new

    def write(self, slots: Tensor, states: Tensor) -> None:
        """Keep ``states`` (M, H) at M ``slots``."""
        self._states[slots - 1] = states.to("cpu", self.dtype)

    def read(self, slots: Tensor) -> Tensor:
        """(M, H) float32 on the CPU: what was written at M ``slots``."""
        return self._states[slots - 1].float()


class FrozenLayers:
    """The lowest ``layers`` of a backbone of a known architecture (`decoder.is_known`), none of them trained.

    They are run in eval mode, without dropout, in training too: what is kept is not drawn. ``kept`` is filled as
    batches come. ``upper`` are the layers above, on which a model goes on from `states`.
    """

    def __init__(self, backbone: Any, layers: int, kept: FrozenStates) -> None:
        self.lower, self.upper = split_at(backbone, layers)
        self.kept = kept
        self._warned = False

    @torch.no_grad()
    def states(self, batch: Batch) -> Tensor:
        """What the frozen layers give for ``input_ids`` (S, T): (S, T, H) without gradient, 0 on padding."""
        nodes, width = nodes_of(batch), self.kept.width
        slots, new = self.kept.slots(batch.input_ids.flatten().tolist(), nodes)
        known = (slots > ROOT) & (slots <= len(self.kept) - len(new))  # before this batch
        states = torch.zeros(len(slots), width, device=batch.input_ids.device)
        if needed := with_ancestors([node for node in nodes if not known[node.start + node.length - 1]]):
            self.lower.eval()
            tokens, computed = run_on_nodes(self.lower, batch, needed)
            # Rounded as it is kept, so that a step does not depend on what had been kept before it.
            states[tokens] = computed.to(self.kept.dtype).float()
            self.kept.write(slots[new], states[new])
            self._warn_once((slots[tokens.cpu()] == NO_ROOM).any())
        places = known.nonzero().squeeze(1)
        states[places] = self.kept.read(slots[places]).to(states.device)
        return states.view(*batch.input_ids.shape, width)

    def _warn_once(self, full: Tensor) -> None:
        if full and not self._warned:
            self._warned = True
            log.warning(
                "kept states: the room for %d tokens (%.2f GB) is full; states of others are computed anew each time",
                len(self.kept),
                len(self.kept) * self.kept.token_bytes / 1e9,
            )


def freeze_lower_layers(model: PreTrainedModel, layers: int) -> None:
    """Stop training the embedding and the lowest ``layers`` transformer layers (0: none), of all of them the norm too.

    Raises ``ValueError`` where there are fewer.
    """
    blocks = model.layers
    assert isinstance(blocks, nn.ModuleList)
    if layers > len(blocks):
        raise ValueError(f"model.freeze_layers={layers}: the backbone has {len(blocks)} layers")
    frozen = [model] if layers == len(blocks) else [model.get_input_embeddings(), *blocks[:layers]]
    for module in frozen if layers else ():
        module.requires_grad_(False)


def split_at(backbone: Any, layers: int) -> tuple[Any, Any]:
    """The lowest ``layers`` without a norm, and those above with it; they share all else that the backbone has."""
    lower, upper = copy.copy(backbone), copy.copy(backbone)
    lower._modules = {**backbone._modules, "layers": backbone.layers[:layers], "norm": nn.Identity()}
    upper._modules = {**backbone._modules, "layers": backbone.layers[layers:]}
    return lower, upper


def inputs_of(batch: Batch) -> dict[str, Any]:
    """What a backbone takes of a batch."""
    if isinstance(batch, ForestBatch):
        return forest_inputs(batch.input_ids, batch.position_ids, batch.tree_mask)
    return {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask, "use_cache": False}


def nodes_of(batch: Batch) -> list[Node]:
    """Of a padded batch a node for each row, padding left out; ``start`` counts in the flattened rows."""
    if isinstance(batch, ForestBatch):
        return batch.nodes
    width = batch.input_ids.shape[1]
    lengths = batch.attention_mask.sum(dim=1).tolist()
    return [Node(row * width, length, 0, (row,)) for row, length in enumerate(lengths)]


def with_ancestors(nodes: Sequence[Node]) -> list[int]:
    """Numbers of nodes and of all above them, ascending: a parent before its children."""
    return sorted({index for node in nodes for index in node.path})


def run_on_nodes(part: Any, batch: Batch, chosen: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Run the lower part of a backbone on the ``chosen`` nodes of a batch alone (ascending, ancestors among them).

    Returns the place of each token in the flattened batch, (M,), and the states there, (M, H).
    """
    nodes, place = [nodes_of(batch)[index] for index in chosen], {index: new for new, index in enumerate(chosen)}
    device = batch.input_ids.device
    tokens = torch.cat([torch.arange(node.start, node.start + node.length) for node in nodes]).to(device)
    if not isinstance(batch, ForestBatch):
        ids, mask = batch.input_ids[chosen], batch.attention_mask[chosen]
        return tokens, part(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state[mask.bool()]
    row = Forest([], [], [], [])
    start = 0
    for node in nodes:
        row.nodes.append(Node(start, node.length, node.depth, tuple(place[above] for above in node.path)))
        start += node.length
    inputs = forest_inputs(batch.input_ids[:, tokens], batch.position_ids[:, tokens], full_mask(row).to(device))
    return tokens, part(**inputs).last_hidden_state[0]
