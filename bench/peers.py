"""Peers: a loop in the style of the paper's authors (arXiv 2508.09463), and three ways to score with stock classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.optim import Optimizer
from transformers import DynamicCache

from bench.models import PAD_ID
from bench.ours import mixed
from bench.rounds import Answer, Contestant, Stopwatch
from crm.model.encoding import EncodedComparison, Segment, token_ids

Queries = Sequence[Sequence[EncodedComparison]]
BATCH = 4


def authors_step(
    twin: Any,
    optimizer: Optimizer,
    pairs: Sequence[EncodedComparison],
    checkpointing: bool = True,
    *,
    bf16: bool = False,
) -> Contestant:
    """One optimizer step over ``pairs``, one at a time; answers their mean loss.

    A pair whose ``sequences`` are two is read in two forward passes, a joint one in a single pass.
    """
    if checkpointing:
        twin.gradient_checkpointing_enable({"use_reentrant": False})

    return _one_by_one(twin, optimizer, pairs, _preference, bf16)


def _one_by_one(
    twin: Any,
    optimizer: Optimizer,
    pairs: Sequence[EncodedComparison],
    preference: Callable[[Any, EncodedComparison], Tensor],
    bf16: bool,
) -> Contestant:
    def run(stopwatch: Stopwatch) -> Answer:
        twin.train()
        losses = []
        with stopwatch:
            for pair in pairs:
                with mixed(str(twin.device), bf16):
                    logit = preference(twin, pair)
                target = torch.full_like(logit, pair.target)
                loss = binary_cross_entropy_with_logits(logit, target) / len(pairs)
                loss.backward()  # type: ignore[no-untyped-call]
                losses.append(loss.detach())
            optimizer.step()
            optimizer.zero_grad()
        return [float(sum(losses))]

    return run


def shared_prefix_step(
    twin: Any, optimizer: Optimizer, pairs: Sequence[EncodedComparison], *, bf16: bool = False
) -> Contestant:
    """One optimizer step over ``pairs`` in flash-preference's layout: prefix, first and second response in a row.

    Its package (li-plus/flash-preference, 812f66a) patches layers of transformers 4 and does not run with 5; here the
    stock model gets positions and a mask instead.
    """
    return _one_by_one(twin, optimizer, pairs, _shared_preference, bf16)


def _shared_preference(twin: Any, pair: EncodedComparison) -> Tensor:
    """Logit () of one pair whose two sequences differ in their last segment, float32."""
    prefix, (first, second) = token_ids(pair.sequences[0][:-1]), (sequence[-1] for sequence in pair.sequences)
    start, middle, end = len(prefix), len(prefix) + len(first), len(prefix) + len(first) + len(second)
    sees = torch.ones(end, end, dtype=torch.bool, device=twin.device).tril()
    sees[middle:, start:middle] = False
    positions = torch.tensor([[*range(middle), *range(start, start + len(second))]], device=twin.device)
    ids = torch.tensor([[*prefix, *first, *second]], device=twin.device)
    inputs = {"input_ids": ids, "position_ids": positions, "attention_mask": sees[None, None], "use_cache": False}
    states = twin.base_model(**inputs).last_hidden_state[0, [middle - 1, end - 1]]
    scores = twin.score(states)[:, 0].float()
    difference: Tensor = scores[0] - scores[1]
    return difference


def _preference(twin: Any, pair: EncodedComparison) -> Tensor:
    """Logit () of one pair, float32."""
    if len(pair.sequences) == 2:
        first, second = (_logits(twin, sequence) for sequence in pair.sequences)
        return (first - second)[0, 0]
    logits = _logits(twin, pair.sequences[0])
    return logits[0, 0] - logits[0, 1]


def _logits(twin: Any, sequence: Sequence[Segment]) -> Tensor:
    ids = torch.tensor([token_ids(sequence)], device=twin.device)
    logits: Tensor = twin(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False).logits
    return logits.float()


def batches(twin: Any, queries: Queries, order: Literal["arrival", "length"], *, bf16: bool = False) -> Contestant:
    """Batches of `BATCH`: sorted by length, or as a file of answers has them, one candidate after another."""
    rows = {(q, c): token_ids(item.sequences[0]) for q, query in enumerate(queries) for c, item in enumerate(query)}

    @torch.inference_mode()
    def run(stopwatch: Stopwatch) -> Answer:
        twin.eval()
        found: list[Tensor] = []
        with stopwatch:
            places = sorted(rows, key=(lambda at: at[::-1]) if order == "arrival" else (lambda at: len(rows[at])))
            for start in range(0, len(places), BATCH):
                ids, mask = _padded([rows[place] for place in places[start : start + BATCH]], twin.device)
                with mixed(str(twin.device), bf16):
                    found.append(twin(input_ids=ids, attention_mask=mask, use_cache=False).logits)
        logit_of = dict(zip(places, _preferences(torch.cat(found)), strict=True))
        return [logit_of[place] for place in rows]

    return run


def cached_prefix(twin: Any, queries: Queries, *, bf16: bool = False) -> Contestant:
    """What all candidates of a query share is read once into a `DynamicCache`, which is expanded over them."""

    @torch.inference_mode()
    def run(stopwatch: Stopwatch) -> Answer:
        twin.eval()
        found = []
        with stopwatch:
            for query in queries:
                with mixed(str(twin.device), bf16):
                    found.append(_read_query(twin, query))
        return _preferences(torch.cat(found))

    return run


def _read_query(twin: Any, query: Sequence[EncodedComparison]) -> Tensor:
    """Logits (M, 2) of the candidates of one query."""
    sequences = [item.sequences[0] for item in query]
    shared = _shared(query)
    prefix = torch.tensor([token_ids(sequences[0][:shared])], device=twin.device)
    cache = DynamicCache(config=twin.config)
    twin.base_model(input_ids=prefix, past_key_values=cache, use_cache=True)
    cache.batch_repeat_interleave(len(query))
    ids, mask = _padded([token_ids(sequence[shared:]) for sequence in sequences], twin.device)
    mask = torch.cat([torch.ones(len(query), prefix.shape[1], dtype=mask.dtype, device=mask.device), mask], dim=1)
    positions = torch.arange(prefix.shape[1], mask.shape[1], device=mask.device).expand(len(query), -1)
    logits: Tensor = twin(
        input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True
    ).logits
    return logits


def _shared(query: Sequence[EncodedComparison]) -> int:
    """Segments that all candidates of a query begin with; the last is always a candidate's own."""
    sequences = [item.sequences[0] for item in query]
    shared = 0
    while shared < len(sequences[0]) - 1 and len({sequence[: shared + 1] for sequence in sequences}) == 1:
        shared += 1
    return shared


def _padded(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Ids and mask, padded on the right to the longest row."""
    width = max(map(len, rows))
    ids = torch.tensor([[*row, *[PAD_ID] * (width - len(row))] for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    return ids.to(device), mask.to(device)


def _preferences(logits: Tensor) -> list[float]:
    logits = logits.float()
    return list(map(float, logits[:, 0] - logits[:, 1]))
