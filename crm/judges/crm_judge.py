"""A customizable reward model as a judge."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from crm.judges.judge import Asked, Reading
from crm.model.batching.batches import Batch
from crm.model.batching.plans import Layout, Packing, Padding
from crm.model.encoding import EncodedComparison, Encoder
from crm.model.export import load_checkpoint
from crm.model.late_reading import LateReader
from crm.model.reward_model import RewardModel

AnyModel = TypeVar("AnyModel", bound=nn.Module)
WINDOW = 16
"""Batches sorted by length together: little padding, and predictions still reach the file in small portions."""


def placed(model: AnyModel, precision: str) -> tuple[AnyModel, torch.autocast]:
    """The model on this process's GPU where there is one, in evaluation mode; autocast to bfloat16 for ``bf16-mixed``.

    A launcher's process has the GPU of its local rank, also before its trainer makes that the current one.
    """
    device = torch.device("cpu")
    if torch.cuda.is_available():
        place = int(os.environ.get("LOCAL_RANK", torch.cuda.current_device()))
        device = torch.device("cuda", place % torch.cuda.device_count())
    return model.to(device).eval(), torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16-mixed")


class CrmJudge:
    """A reward model with its encoder, device, precision and batches.

    With a ``packing``, comparisons of one prompt share what they can, where the architecture is known to pack.
    ``model_digest`` is that of the checkpoint's manifest; a model in training has none, and its readings are not saved.
    """

    left_out = "too_long"

    def __init__(
        self,
        model: RewardModel,
        encoder: Encoder,
        *,
        batch_size: int,
        precision: str = "32-true",
        packing: Packing | None = None,
        model_digest: str = "",
    ) -> None:
        self.model, self._autocast = placed(model, precision)
        self.encoder = encoder
        self.together = batch_size * WINDOW
        """Comparisons of a portion: what is packed with what decides the order of sums."""
        padding = Padding(batch_size, int(encoder.tokenizer.pad_token_id))
        self.layout: Layout = packing if packing and model.reads_forests else padding
        self.model_digest = model_digest
        self.precision = precision

    @property
    def pointwise(self) -> bool:
        """Whether the head reads a response without the other."""
        return not self.encoder.kind.joint

    @property
    def digest(self) -> str:
        """Of weights, template and precision: readings in bfloat16 never mix with readings in float32."""
        return f"{self.model_digest}-{self.encoder.digest}-{self.precision}"

    @cached_property
    def late_reader(self) -> LateReader | None:
        """Makes vectors of texts, for a late head whose architecture is known to pack."""
        if not (self.model.reads_forests and self.encoder.kind.apart):
            return None
        tokens = {"tokens": self.layout.tokens} if isinstance(self.layout, Packing) else {}
        return LateReader(self.model, self.encoder, autocast=self._autocast, precision=self.precision, **tokens)

    def read(self, comparisons: Sequence[Asked]) -> Iterator[list[Reading]]:
        """Readings in portions of a few batches; a comparison too long for the model gives none."""
        for start in range(0, len(comparisons), self.together):
            encoded = [self.encoder.encode(*pair) for pair in comparisons[start : start + self.together]]
            batches = self.layout.cut([row for row in encoded if row is not None])
            yield [reading for batch in batches for reading in self._read_batch(batch)]

    @torch.inference_mode()
    def _read_batch(self, rows: list[EncodedComparison]) -> list[Reading]:
        """What the head says of the B ``rows``, about the records' responses A and B."""
        batch: Batch = self.layout.collate(rows).to(self.model.device)
        with self._autocast:
            output = self.model(batch)
        logits = (output.preference_logit * batch.sign).tolist()
        scores = output.scores.tolist() if output.scores is not None else [(None, None)] * len(rows)
        found = []
        for row, logit, (first, second) in zip(rows, logits, scores, strict=True):
            a, b = (first, second) if row.order == "ab" else (second, first)
            found.append(Reading(row.comparison, row.order, logit, a, b, tokens=sum(row.lengths)))
        return found


def open_checkpoint(
    checkpoint: str | Path, *, batch_size: int = 64, precision: str = "32-true", packing: Packing | None = None
) -> tuple[CrmJudge, dict[str, Any]]:
    """A model folder, a run folder or a hub's model as a judge, and its manifest.

    Raises ``ValueError`` as `load_checkpoint` does.
    """
    model, tokenizer, manifest = load_checkpoint(checkpoint)
    encoder = Encoder(tokenizer, model.head, int(manifest["max_length"]))
    settings: Any = {"batch_size": batch_size, "precision": precision, "packing": packing}
    return CrmJudge(model, encoder, model_digest=str(manifest["digest"]), **settings), manifest
