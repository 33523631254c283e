"""Peers in training: a loop in the style of the paper's authors (arXiv 2508.09463), batch 1, with accumulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.optim import Optimizer

from bench.ours import mixed
from bench.rounds import Answer, Contestant, Stopwatch
from crm.model.encoding import EncodedComparison, Segment, token_ids


def authors_step(
    twin: Any,
    optimizer: Optimizer,
    pairs: Sequence[EncodedComparison],
    *,
    checkpointing: bool = True,
    bf16: bool = False,
) -> Contestant:
    """One optimizer step over ``pairs``, one at a time; answers their mean loss.

    A pair whose ``sequences`` are two is read in two forward passes, a joint one in a single pass.
    """
    if checkpointing:
        twin.gradient_checkpointing_enable({"use_reentrant": False})

    def run(stopwatch: Stopwatch) -> Answer:
        twin.train()
        losses = []
        with stopwatch:
            for pair in pairs:
                with mixed(str(twin.device), bf16):
                    logit = _preference(twin, pair)
                target = torch.full_like(logit, pair.target)
                loss = binary_cross_entropy_with_logits(logit, target) / len(pairs)
                loss.backward()  # type: ignore[no-untyped-call]
                losses.append(loss.detach())
            optimizer.step()
            optimizer.zero_grad()
        return [float(sum(losses))]

    return run


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
