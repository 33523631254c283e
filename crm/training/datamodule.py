"""Loaders of one training run, and what became of every row."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import lightning as L
import torch
from torch import Tensor

from crm.data.comparisons import FIXED_SEED, WITHOUT_EFFECT, CriteriaPool, make_comparisons
from crm.io.rows import listed
from crm.model.batching.plans import Padding, TrainLoader, ValidationLoader, encode_epoch, packing_named
from crm.model.encoding import EncodedComparison, Encoder
from crm.model.heads import head_named
from crm.schema import Comparison, Preference
from crm.training.config import TrainConfig

log = logging.getLogger(__name__)
VALIDATION_EPOCH = 0
"""Validation is drawn once, with `FIXED_SEED`, and clean: the same for every seed and noise of training."""


class PreferenceDataModule(L.LightningDataModule):
    """Comparisons of one run. ``direction``, ``noise`` and order are drawn anew each epoch with ``seed``.

    Validation is drawn once, for all seeds alike, and reads both sides of a row that have criteria, whatever the
    direction of training: accuracies by direction are then of the same pairs.
    """

    def __init__(
        self,
        config: TrainConfig,
        train: Sequence[Preference],
        validation: Sequence[Preference],
        encoder: Encoder,
        pad_id: int,
    ) -> None:
        super().__init__()
        self.config, self.train, self.validation, self.encoder = config, train, validation, encoder
        self.world_size = config.trainer.processes
        self._kinds: dict[str, Any] = {"ties": config.loss.ties, "criteria_mode": config.criteria}
        head = head_named(config.head.name)
        sequences = 1 if head.joint else 2
        if head.apart:  # it reads each criterion in a sequence of its own
            sides = (side for row in (*train, *validation) for side in (row.criteria_a, row.criteria_b))
            sequences += 1 if config.criteria == "none" else max(map(len, sides), default=0)
        rows = max(1, config.batching.tokens // (config.model.max_length * sequences))
        self.layout = packing_named(config.batching.name, config.batching.tokens) or Padding(rows, pad_id)
        sizes = {"step": config.schedule.comparisons_per_step, "seed": config.seed, "world_size": self.world_size}
        self.loader = TrainLoader(self.epoch_comparisons, encoder, self.layout, **sizes)
        self.validation_batches: list[list[EncodedComparison]] = []
        """What this process validates on, once there is a loader."""

    @property
    def passes(self) -> int:
        """Forward passes a rank and optimizer step."""
        return self.loader.size.a_step

    def counts(self) -> dict[str, int]:
        """Rows of the first epoch: read, made, dropped and why, trained on; and of validation, accuracy's too."""
        decided = [row for row in self.validation_rows if self.is_trained(row.comparison) and row.target != 0.5]
        return {
            "read": len(self.train),
            "validation_read": len(self.validation),
            "validation_made": len(self.validation_comparisons),
            "validation_overlong": len(self.validation_comparisons) - len(self.validation_rows),
            "validation_decided": len(decided),
            **self.loader.counts,
        }

    @cached_property
    def _pool(self) -> CriteriaPool:
        return CriteriaPool.from_preferences(self.train)

    def epoch_comparisons(self, epoch: int) -> tuple[list[Comparison], dict[str, int]]:
        """Training rows of an epoch, before encoding, and what became of the votes."""
        kind, noise = self.config.direction.kind, self.config.noise.kind
        pool = None if noise == "none" else self._pool
        drawn: dict[str, Any] = {"direction": kind, "noise": noise, "pool": pool, "seed": self.config.seed}
        return make_comparisons(self.train, **drawn, epoch=epoch, **self._kinds)

    @cached_property
    def validation_comparisons(self) -> list[Comparison]:
        """Clean validation rows, before encoding: both directions of each that training would read."""
        drawn: dict[str, Any] = {"direction": "both", "noise": "none", "pool": None, "seed": FIXED_SEED}
        rows, _ = make_comparisons(self.validation, **drawn, epoch=VALIDATION_EPOCH, **self._kinds)
        trained = {row.preference_id for row in rows if self.is_trained(row)}
        return [row for row in rows if row.preference_id in trained]

    @cached_property
    def validation_rows(self) -> list[EncodedComparison]:
        """What validation reads, on all ranks together."""
        drawn = {"seed": FIXED_SEED, "epoch": VALIDATION_EPOCH}
        groups, _ = encode_epoch(self.validation_comparisons, self.encoder, **drawn)
        return [row for rows in groups for row in rows]

    def is_trained(self, row: Comparison) -> bool:
        """Whether a row is of the direction that is trained; if not, validation reads it for its pair's sake alone."""
        return self.config.direction.kind in ("random", "both", row.direction)

    @property
    def _rank(self) -> int:
        return self.trainer.global_rank if self.trainer else 0

    def train_dataloader(self) -> TrainLoader:
        """The stateful loader of this rank; Lightning asks for it once a run."""
        self.loader.rank = self._rank
        return self.loader

    def val_dataloader(self) -> ValidationLoader:
        """Validation rows of this rank; as many batches on every rank."""
        loader = ValidationLoader(self.validation_rows, self.layout, rank=self._rank, world_size=self.world_size)
        self.validation_batches = loader.batches
        return loader

    @cached_property
    def _read(self) -> Counter[str]:
        return Counter(row.comparison.preference_id for row in self.validation_rows)

    def validation_roles(self, batch_idx: int) -> tuple[Tensor, Tensor]:
        """Of the rows of a validation batch (B,): which count in the loss, and which are read in both directions."""
        rows = self.validation_batches[batch_idx]
        paired = [self._read[row.comparison.preference_id] == 2 for row in rows]
        return torch.tensor([self.is_trained(row.comparison) for row in rows]), torch.tensor(paired)


def check_counts(data: PreferenceDataModule, counts: Mapping[str, int]) -> None:
    """Raise ``ValueError`` where nothing is left to train on or to validate on, or a step has too many passes."""
    config = data.config
    if not counts["read"]:
        raise ValueError(f"{config.data.word}: no votes to train on, as in a set to evaluate on; choose another")
    if not counts["trained_on"]:
        gone = {name: counts.get(name, 0) for name in ("ties_dropped", "without_criteria", "overlong")}
        raise ValueError(
            f"{config.data.word} direction={config.direction.kind}: no comparison left to train on of "
            f"{counts['read']} votes ({listed(gone) or 'no vote was read'})"
        )
    step, devices = config.schedule.comparisons_per_step, config.trainer.processes
    if (penalty := config.loss.off_criteria_penalty) and step < 2 * devices * data.passes:
        raise ValueError(
            f"loss.off_criteria_penalty={penalty}: needs two comparisons in a pass, and schedule.comparisons_per_step="
            f"{step} are {data.passes} passes on {devices} devices; raise batching.tokens, or train on fewer devices"
        )
    if config.noise.kind != "none" and counts.get("noise_none", 0) == counts.get("made"):
        log.warning("noise=%s %s", config.noise.kind, WITHOUT_EFFECT)
    if not (made := counts["validation_made"]):
        raise ValueError(f"{config.data.word}: no comparison to validate on; raise data.validation_fraction")
    if made == counts["validation_overlong"]:
        raise ValueError(
            f"model.max_length={config.model.max_length}: all {made} comparisons to validate on are longer; raise it"
        )
