"""The validation rows that a trained model finds hardest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
import torch.distributed as dist

from crm.model.encoding import EncodedComparison
from crm.schema import Message
from crm.training.datamodule import PreferenceDataModule
from crm.training.lit_module import LitRewardModel

SHOWN_CHARACTERS = 300
Judged = tuple[EncodedComparison, float]
"""A validation row, and the log-odds that its response shown first is preferred."""


def gather_judged(lit: LitRewardModel, data: PreferenceDataModule) -> list[Judged]:
    """Every validation row that counts and its logit in the latest validation, of all ranks together, on each."""
    own = {
        row.comparison.id: logit
        for place, logits in lit.validation_logits.items()
        for row, logit in zip(data.validation_batches[place], logits.tolist(), strict=True)
    }
    shares: list[Any] = [own]
    if dist.is_available() and dist.is_initialized():
        shares = [None] * dist.get_world_size()
        dist.all_gather_object(shares, own)
    logits = {name: logit for share in shares for name, logit in share.items()}
    return [(row, logits[row.comparison.id]) for row in data.validation_rows if data.is_trained(row.comparison)]


def worst_pairs(judged: Sequence[Judged], size: int = 20) -> pd.DataFrame:
    """The ``size`` comparisons with the largest loss (nats), worst first; long texts are cut.

    ``p_first`` is the probability that the response shown first is preferred, ``label`` which one was (``first``,
    ``second`` or ``tie``).
    """
    rows = []
    for row, logit in judged:
        comparison = row.comparison
        texts = [comparison.response_a, comparison.response_b]
        first, second = texts if row.order == "ab" else texts[::-1]
        rows.append(
            {
                "loss": max(logit, 0.0) - logit * row.target + math.log1p(math.exp(-abs(logit))),
                "p_first": 0.5 * (1.0 + math.tanh(0.5 * logit)),
                "label": {1.0: "first", 0.0: "second"}.get(row.target, "tie"),
                "criteria": " | ".join(comparison.criteria),
                "query": _cut(comparison.prompt),
                "first": _cut(first),
                "second": _cut(second),
                "comparison_id": comparison.id,
            }
        )
    return pd.DataFrame(rows).sort_values(["loss", "comparison_id"], ascending=[False, True]).head(size)


def _cut(turns: Sequence[Message]) -> str:
    text = "\n".join(turn.content for turn in turns)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS].rstrip() + " …"
