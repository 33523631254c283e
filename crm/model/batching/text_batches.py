"""Batches of many comparisons over few texts. In: texts and arrays. Out: a forward pass that reads each text once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from crm.model.batching.batches import TextTokens, by_length, length_groups
from crm.model.batching.forest import fill_up, grow_forest
from crm.model.batching.packs import ROW_STEP, ForestBatch
from crm.model.batching.tree_mask import full_mask, read_mask
from crm.model.encoding import Encoder, token_ids
from crm.schema import Message


def collate_texts(
    conversations: Sequence[tuple[Sequence[Message], Sequence[Message]]],
    criteria: Sequence[str],
    shown: NDArray[Any],
    asked: NDArray[Any],
    target: NDArray[Any],
    encoder: Encoder,
) -> ForestBatch:
    """B comparisons, in ``shown`` (B, 2) of U conversations, in ``asked`` (B,) of V criteria; ``target`` (B,).

    Targets are in [0, 1]: how likely the first is preferred. Without criteria, ``asked`` are wishes of
    `LateHead.learn_wishes`. Comparisons with a text that is longer than the model reads are left out; raises
    ``ValueError`` where these are all.
    """
    segments = [encoder.conversation_segments(prompt, response) for prompt, response in conversations]
    sequences = [token_ids(parts) for parts in segments]
    starts = [len(parts[0].ids) for parts in segments]
    sequences += [token_ids(encoder.criteria_segments((text,))) for text in criteria]
    starts += [encoder.instruction] * len(criteria)
    fits = np.array([len(ids) <= encoder.max_length for ids in sequences])
    count = len(conversations)
    fitting = np.asarray(fits[:count][shown].all(axis=1))
    if criteria:
        fitting &= fits[count:][asked]
    if not fitting.any():
        raise ValueError(f"model.max_length={encoder.max_length}: no comparison of a whole table fits; raise it")
    shown, asked, target = shown[fitting], asked[fitting], target[fitting]
    # What is too long is in no comparison left: its first token stands for it.
    texts = [(ids, start) if fit else (ids[:1], 0) for ids, start, fit in zip(sequences, starts, fits, strict=True)]
    return _laid_out(texts, count, torch.from_numpy(shown), torch.from_numpy(asked), torch.from_numpy(target))


def _laid_out(
    texts: Sequence[tuple[tuple[int, ...], int]],
    count: int,
    shown: torch.Tensor,
    asked: torch.Tensor,
    target: torch.Tensor,
) -> ForestBatch:
    """Texts as token ids and the first of them that is pooled; ``count`` conversations, then criteria."""
    forest = grow_forest([ids for ids, _ in texts])
    tokens, pairs = len(forest.ids), forest.pairs
    fill_up(forest, ROW_STEP)
    ends = zip(forest.leaf_of, texts, strict=True)
    places = [forest.places(leaf, start, len(ids)) for leaf, (ids, start) in ends]
    responses, criteria = by_length(places[:count]), by_length(places[count:])
    if criteria:
        asked = torch.tensor([criteria[own] for own in places[count:]])[asked]
    number = torch.tensor([responses[own] for own in places[:count]])
    comparisons = len(target)
    return ForestBatch(
        torch.tensor([forest.ids]),
        torch.tensor([forest.positions]),
        torch.tensor([0]),
        torch.zeros(comparisons, 2, dtype=torch.int64),
        target,
        torch.ones(comparisons),
        torch.zeros(comparisons, dtype=torch.bool),
        TextTokens(length_groups(responses), length_groups(criteria), number[shown], asked[:, None]),
        forest.nodes,
        full_mask(forest),
        read_mask(forest, [0]),
        tokens,
        pairs,
    )
