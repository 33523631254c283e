"""Layers that are not trained, run once for each beginning of a sequence, and two-depth reading for late heads.

What such a layer gives for a token depends on that token and those before it alone, so its output is kept in a tree of
tokens. The backbone is run in two parts which share its layers: the embedding and the lowest layers without gradient,
only for tokens that are not kept yet, and the layers above on the result. Neither part is a module of the model: no
weight gets another name, and nothing that is kept is saved or exported.
"""

from __future__ import annotations

import copy
import logging
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from crm.model.attention.decoder import forest_inputs
from crm.model.batching.batches import Batch, ForestBatch
from crm.model.batching.forest import Forest, Node
from crm.model.batching.tree_mask import full_mask

log = logging.getLogger(__name__)
INDEX_BYTES = 160
"""A token's entry in the tree: two integers and its place in a dictionary (measured)."""
ROOT, UNKNOWN = 0, -1


class FrozenStates:
    """Room for the states (H,) of as many tokens as fit ``budget`` bytes; nothing is replaced once it is full.

    ``dtype`` float32 gives back what was put in; bfloat16 takes half of the room and keeps 8 significant bits.
    """

    def __init__(self, width: int, *, budget: int, dtype: torch.dtype = torch.float32) -> None:
        self.width, self.dtype = width, dtype
        self.token_bytes = width * dtype.itemsize + INDEX_BYTES
        self.room = budget // self.token_bytes
        self._slot_below: dict[int, int] = {}  # slot of the token before and token id, in one number; slots from 1
        self._states = torch.empty(self.room, width, dtype=dtype)  # memory is taken page by page as it is written

    def __len__(self) -> int:
        return len(self._slot_below)

    def find(self, ids: Sequence[int], nodes: Sequence[Node]) -> list[int]:
        """Slot of each of the N ``ids`` laid out in ``nodes``, a parent before its children; -1 where none is kept."""
        return self._walk(ids, nodes, None)

    def add(self, ids: Sequence[int], nodes: Sequence[Node], states: Tensor) -> int:
        """Keep ``states`` (N, H) of tokens as `find` takes them; returns how many found no room."""
        fresh: list[int] = []
        slots = self._walk(ids, nodes, fresh)
        self._states[torch.tensor(slots)[fresh] - 1] = states[fresh].to("cpu", self.dtype)
        return slots.count(UNKNOWN)

    def read(self, slots: Tensor) -> Tensor:
        """(M, H) float32 on the CPU: the states of M ``slots``, none of them -1."""
        return self._states[slots - 1].float()

    def _walk(self, ids: Sequence[int], nodes: Sequence[Node], fresh: list[int] | None) -> list[int]:
        """Slot of each token; with ``fresh``, tokens without one get it while there is room, and are listed there."""
        slots = [UNKNOWN] * len(ids)
        for node in nodes:
            slot = ROOT
            if len(node.path) > 1:
                parent = nodes[node.path[-2]]
                slot = slots[parent.start + parent.length - 1]
            for token in range(node.start, node.start + node.length):
                if slot == UNKNOWN:
                    break
                key = slot << 32 | ids[token]
                if fresh is not None and key not in self._slot_below and len(self) < self.room:
                    self._slot_below[key] = len(self) + 1
                    fresh.append(token)
                slot = slots[token] = self._slot_below.get(key, UNKNOWN)
        return slots


@dataclass
class TokenCounts:
    """Tokens of all batches so far, padding left out."""

    read: int = 0
    computed: int = 0
    """Of these, sent through the frozen layers."""
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

    def states(self, batch: Batch, wanted: Sequence[Node] | None = None) -> Tensor:
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
            states[tokens] = fresh = self._computed(batch, part, tokens, needed)
            without_room = self.kept.add([ids[token] for token in tokens.tolist()], part, fresh)
            if without_room and not self.counts.without_room:
                log.warning(
                    "kept states: the room for %d tokens (%.2f GB) is full; states of others are computed anew each "
                    "time. Raise model.kept_states_gb",
                    len(self.kept),
                    len(self.kept) * self.kept.token_bytes / 1e9,
                )
            self.counts.computed += len(tokens)
            self.counts.without_room += without_room
        states[known] = self.kept.read(slots[known]).to(device)
        self.counts.read += batch.tokens
        return states.view(*batch.input_ids.shape, -1)

    @torch.no_grad()
    def _computed(self, batch: Batch, part: list[Node], tokens: Tensor, needed: list[int]) -> Tensor:
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


class TwoDepths:
    """A backbone that reads responses with its lowest layers and criteria with all.

    Responses are many and long, criteria few and short: a bank costs the first number of layers, and how well a
    criterion is understood depends on the second. ``lower`` and ``upper`` together are the backbone. Raises
    ``ValueError`` where ``response_layers`` are not fewer than the backbone has.
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

    def run(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(M, H) each: states of all tokens after the lowest layers, and after all those of criteria; others are 0."""
        assert batch.texts is not None
        low = self.lower(**inputs_of(batch)).last_hidden_state
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

    def kept_states(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(M, H) each, without gradient: the first where tokens are of responses, the second where of criteria."""
        assert self.kept is not None and batch.texts is not None
        nodes = nodes_of(batch)
        of_responses, of_criteria = (
            kept.states(batch, ends_in(nodes, texts)).flatten(0, 1)
            for kept, texts in zip(self.kept, (batch.texts.responses, batch.texts.criteria), strict=True)
        )
        with torch.no_grad():
            return of_responses, self.upper.norm(of_criteria)


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


def most_frozen(backbone: Any, layers: int, *, whole: bool) -> int:
    """How many of the lowest ``layers`` can be kept."""
    return min(layers, len(backbone.layers) - (not whole))


def part_of(backbone: Any, layers: Any, norm: nn.Module) -> Any:
    """The backbone with other layers and norm; all it has beside these is shared."""
    part = copy.copy(backbone)
    part._modules = {**backbone._modules, "layers": layers, "norm": norm}
    return part


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


def restricted(nodes: Sequence[Node], chosen: Sequence[int]) -> tuple[list[Node], Tensor]:
    """The ``chosen`` nodes (ascending, ancestors among them) as a row of their own, and (M,) where its tokens lay."""
    number = {index: new for new, index in enumerate(chosen)}
    part: list[Node] = []
    start = 0
    for node in (nodes[index] for index in chosen):
        part.append(Node(start, node.length, node.depth, tuple(number[above] for above in node.path)))
        start += node.length
    return part, torch.cat([torch.arange(nodes[i].start, nodes[i].start + nodes[i].length) for i in chosen])


def ends_in(nodes: Sequence[Node], texts: Sequence[Tensor]) -> list[Node]:
    """The nodes (in the order of their first tokens) in which texts end, given as groups of places, (texts, L) each."""
    starts = [node.start for node in nodes]
    ends = {int(place) for group in texts for place in group.max(dim=1).values.tolist()}
    return [nodes[index] for index in sorted({bisect_right(starts, end) - 1 for end in ends})]
