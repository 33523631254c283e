"""Peers: the loop of the paper's authors (arXiv 2508.09463), flash-preference's layout, and two ways to score."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from os.path import commonprefix
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.optim import Optimizer
from transformers import DynamicCache

from bench.models import PAD_ID
from bench.ours import PADDED, mixed, optimizer_step
from bench.rounds import Answer, Contestant, Stopwatch
from crm.model.encoding import EncodedComparison, Segment, token_ids

Queries = Sequence[Sequence[EncodedComparison]]


def separately(twin: Any, pair: EncodedComparison) -> Tensor:
    """Logit () of one pair, float32: a forward pass for each of its sequences, two or a joint one."""
    logits = [_logits(twin, sequence)[0] for sequence in pair.sequences]
    first, second = logits if len(logits) == 2 else (logits[0][:1], logits[0][1:])
    return (first - second)[0]


def in_a_row(twin: Any, pair: EncodedComparison) -> Tensor:
    """Logit () of one pair in flash-preference's layout, float32: prefix, first and second response in a row.

    Its package (li-plus/flash-preference, 812f66a) patches layers of transformers 4 and does not run with 5; here the
    stock model gets positions and a mask instead.
    """
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


def one_by_one(
    twin: Any,
    optimizer: Optimizer,
    pairs: Sequence[EncodedComparison],
    read: Callable[[Any, EncodedComparison], Tensor] = separately,
    *,
    bf16: bool = False,
) -> Contestant:
    """One optimizer step over ``pairs``, one at a time, as the authors have it; answers their mean loss."""

    def passes() -> Iterator[tuple[Tensor, Tensor]]:
        for pair in pairs:
            with mixed(str(twin.device), bf16):
                logit = read(twin, pair)
            yield logit, torch.full_like(logit, pair.target)

    return optimizer_step(optimizer, len(pairs), passes)


def _logits(twin: Any, sequence: Sequence[Segment]) -> Tensor:
    ids = torch.tensor([token_ids(sequence)], device=twin.device)
    logits: Tensor = twin(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False).logits
    return logits.float()


def batches(twin: Any, queries: Queries, *, bf16: bool = False) -> Contestant:
    """Padded batches in arrival order: as a file of answers has them, one candidate after another."""
    rows = {(q, c): token_ids(item.sequences[0]) for q, query in enumerate(queries) for c, item in enumerate(query)}

    @torch.inference_mode()
    def run(stopwatch: Stopwatch) -> Answer:
        twin.eval()
        found: list[Tensor] = []
        with stopwatch:
            places = sorted(rows, key=lambda at: at[::-1])
            for start in range(0, len(places), PADDED.rows):
                ids, mask = _padded([rows[place] for place in places[start : start + PADDED.rows]], twin.device)
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
    shared = min(len(commonprefix(sequences)), len(sequences[0]) - 1)  # noqa: RUF071 - tuples; the last is a candidate's own
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


def _padded(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Ids and mask, padded on the right to the longest row."""
    ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD_ID)
    mask = pad_sequence([torch.ones(len(row), dtype=torch.int64) for row in rows], batch_first=True)
    return ids.to(device), mask.to(device)


def _preferences(logits: Tensor) -> list[float]:
    logits = logits.float()
    return list(map(float, logits[:, 0] - logits[:, 1]))
