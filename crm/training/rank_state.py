"""What every process of a run has for itself. In: a metric, tokens read. Out: a list of plain states, one a process.

Lightning writes the checkpoint of the first process alone; its random state and its counts are not the others'.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist

from crm.training.metrics import PreferenceAccuracy


def gather_states(metric: PreferenceAccuracy, tokens: int) -> list[dict[str, Any]]:
    """Random state, counts of ``metric``, ``tokens``, of every process in order of rank; all must call it together."""
    own: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
        "counts": (float(metric.correct), float(metric.total)),
        "tokens": tokens,
    }
    if not (dist.is_available() and dist.is_initialized()):
        return [own]
    states: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(states, own)
    return states


def restore_state(states: list[dict[str, Any]], metric: PreferenceAccuracy) -> int:
    """Take up the state of this rank and return its tokens. With another number of processes counts and tokens add up
    to what they were, and random states are dealt out in turn.
    """
    together = dist.is_available() and dist.is_initialized()
    rank, world_size = (dist.get_rank(), dist.get_world_size()) if together else (0, 1)
    own = states[rank % len(states)]
    torch.set_rng_state(own["torch"])
    if own["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(own["cuda"])
    counts = [state["counts"] for state in states[rank::world_size]]
    metric.correct.fill_(sum(correct for correct, _ in counts))
    metric.total.fill_(sum(total for _, total in counts))
    return sum(state.get("tokens", 0) for state in states[rank::world_size])
