"""Loaders of one training run, and what became of every row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Protocol

import lightning as L
import torch
from torch import Tensor

from crm.data.comparisons import FIXED_SEED, make_comparisons
from crm.data.noise import CriteriaPool
from crm.model.batching.batches import Batch, WithPaddingBatches, collate
from crm.model.batching.loader import EvaluationLoader, TrainLoader
from crm.model.batching.plans import (
    EpochPlan,
    PackedPlan,
    deal,
    draw_order,
    draw_steps,
    packing_named,
    passes_needed,
    plan_epoch,
)
from crm.model.encoding import EncodedComparison, Encoder
from crm.model.heads import head_named
from crm.schema import Comparison, Preference
from crm.training.config import TrainConfig

VALIDATION_EPOCH = 0
"""Validation is drawn once, with `FIXED_SEED`, and clean: the same for every seed and noise of training."""


class BatchLoader(Protocol):
    """What an entry point of ``crm.batching`` makes: the batches of an epoch on one device, a step each."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Batch]: ...

    def counts(self) -> dict[str, int]:
        """Comparisons of an epoch ``made``, ``overlong`` and ``trained_on``, and ``largest_batch_tokens``."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Where to go on after the last batch that was handed out."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on there."""
        ...


def padded_tokens(batch: Sequence[EncodedComparison]) -> int:
    """Most tokens that a forward pass over ``batch`` computes, padding included."""
    return sum(len(row.sequences) for row in batch) * max(max(row.lengths) for row in batch)


def padded_rows(config: TrainConfig, share: int) -> int:
    """Comparisons of a padded forward pass: ``batching.batch_size``, or as many as ``batching.tokens`` holds.

    A divisor of the ``share`` of a step that a device has. Raises ``ValueError`` where ``batch_size`` is none.
    """
    if rows := config.batching.batch_size:
        if share % rows:
            raise ValueError(
                f"batching.batch_size={rows}: expected a divisor of {share}, the comparisons of a step on each device "
                "(schedule.comparisons_per_step / devices)"
            )
        return rows
    sequences = 1 if head_named(config.head.name).joint else 2
    most = max(1, config.batching.tokens // (config.model.max_length * sequences))
    return max(rows for rows in range(1, min(most, share) + 1) if share % rows == 0)


class PreferenceDataModule(L.LightningDataModule):
    """Comparisons of one run. ``direction``, ``noise`` and order are drawn anew each epoch with ``seed``.

    Validation is drawn once, for all seeds alike, and reads both sides of a row that have criteria, whatever the
    direction of training: accuracies by direction are then of the same pairs. With a ``loader`` (an entry point of
    ``crm.batching``) its batches are trained on, whatever ``batch_size``, ``direction`` and ``noise``.
    """

    def __init__(
        self,
        config: TrainConfig,
        train: Sequence[Preference],
        validation: Sequence[Preference],
        encoder: Encoder,
        pad_id: int,
        loader: BatchLoader | None = None,
    ) -> None:
        super().__init__()
        self.train, self.validation, self.encoder, self.pad_id, self.loader = train, validation, encoder, pad_id, loader
        self.direction, self.noise, self.seed = config.direction.kind, config.noise.kind, config.seed
        self.ties, self.criteria_mode = config.loss.ties, config.criteria
        share = config.schedule.share(config.trainer.devices * config.trainer.nodes)
        self.batch_size = padded_rows(config, share) if config.batching.name == "padded" else share
        """Comparisons of a padded forward pass, or of a step, on each rank."""
        self.packing = packing_named(config.batching.name, config.batching.tokens)
        self.passes = share // self.batch_size
        """Forward passes a rank and optimizer step; with a packing as many as `survey` finds necessary."""
        self._first: tuple[int, EpochPlan | PackedPlan] | None = None
        """Ranks and plan of the first epoch, as surveyed; given to the loader, which lets go of it after that epoch."""
        self.tokens_read = 0  # in training, by this process
        self.pool = None if self.noise == "none" else CriteriaPool.from_preferences(train)
        self.validation_batches: list[list[int]] = []
        """What this process validates on once there is a loader, as numbers of `validation_rows`."""

    def epoch_comparisons(self, epoch: int) -> list[Comparison]:
        """Training rows of an epoch, before encoding."""
        return self._make(self.train, self.direction, self.noise, epoch, self.seed)[0]

    def _make(
        self, preferences: Sequence[Preference], direction: str, noise: str, epoch: int, seed: int
    ) -> tuple[list[Comparison], dict[str, int]]:
        return make_comparisons(
            preferences,
            direction=direction,
            noise=noise,
            pool=self.pool,
            seed=seed,
            epoch=epoch,
            ties=self.ties,
            criteria_mode=self.criteria_mode,
        )

    @cached_property
    def validation_comparisons(self) -> list[Comparison]:
        """Clean validation rows, before encoding: both directions of each that training would read."""
        rows, _ = self._make(self.validation, "both", "none", VALIDATION_EPOCH, FIXED_SEED)
        trained = {row.preference_id for row in rows if self._is_trained(row)}
        return [row for row in rows if row.preference_id in trained]

    @cached_property
    def validation_rows(self) -> list[EncodedComparison]:
        """What validation reads, on all ranks together."""
        orders = (
            draw_order(row.preference_id, seed=FIXED_SEED, epoch=VALIDATION_EPOCH)
            for row in self.validation_comparisons
        )
        drawn = map(self.encoder.encode, self.validation_comparisons, orders)
        return [row for row in drawn if row is not None]

    def _is_trained(self, row: Comparison) -> bool:
        return self.direction in ("random", "both", row.direction)

    def train_dataloader(self) -> TrainLoader | BatchLoader:
        """The stateful loader of this rank; Lightning asks for it once a run."""
        if self.loader is not None:
            return self.loader
        rank, world_size = self._ranks()
        (surveyed, first), self._first = self._first or (0, None), None
        return TrainLoader(
            self.epoch_comparisons,
            self.encoder,
            batch_size=self.batch_size,
            pad_id=self.pad_id,
            seed=self.seed,
            rank=rank,
            world_size=world_size,
            packing=self.packing,
            passes=self.passes,
            first=first if surveyed == world_size else None,
        )

    def on_before_batch_transfer(self, batch: Batch, dataloader_idx: int) -> Batch:
        """Count the tokens of a training batch while it is on the CPU: a GPU would be waited for."""
        if self.trainer is not None and self.trainer.training:
            self.tokens_read += batch.tokens
        return batch

    def val_dataloader(self) -> WithPaddingBatches:
        """Validation rows of this rank; as many batches on every rank."""
        rank, world_size = self._ranks()
        rows, same = self.validation_rows, {"batch_size": self.batch_size, "packing": self.packing}
        loaders = [
            EvaluationLoader(rows, pad_id=self.pad_id, rank=index, world_size=world_size, **same)  # type: ignore[arg-type]
            for index in range(world_size)
        ]
        number = {id(row): index for index, row in enumerate(rows)}
        self.validation_batches = [[number[id(row)] for row in batch] for batch in loaders[rank].batches]
        padding = self.packing.collate(rows[:1]) if self.packing else collate(rows[:1], self.pad_id)
        return WithPaddingBatches(loaders[rank], max(map(len, loaders)), padding)

    def counts_in_loss(self, row: EncodedComparison) -> bool:
        """Whether a validation row is of the direction that is trained; if not, it is read for its pair's sake."""
        return self._is_trained(row.comparison)

    @cached_property
    def _read(self) -> Counter[str]:
        return Counter(row.comparison.preference_id for row in self.validation_rows)

    def validation_roles(self, batch_idx: int) -> tuple[Tensor, Tensor]:
        """Of the rows of a validation batch (B,): which count in the loss, and which are read in both directions."""
        rows = [self.validation_rows[number] for number in self.validation_batches[batch_idx]]
        paired = [self._read[row.comparison.preference_id] == 2 for row in rows]
        return torch.tensor([self.counts_in_loss(row) for row in rows]), torch.tensor(paired)

    def survey(self, world_size: int) -> tuple[int, dict[str, int]]:
        """Forward passes an epoch on each rank, and rows of the first epoch: read, made, dropped and why, trained on.

        With a packing it also settles ``passes``. The plan that it draws is the one that the loader begins with.
        """
        counts = {
            "read": len(self.train),
            "validation_read": len(self.validation),
            "validation_made": len(self.validation_comparisons),
            "validation_overlong": len(self.validation_comparisons) - len(self.validation_rows),
        }
        if self.loader is not None:
            self.passes = 1
            return len(self.loader), counts | self.loader.counts()
        rows, made = self._make(self.train, self.direction, self.noise, 0, self.seed)
        plan, most = self._survey_packs(rows, world_size) if self.packing else self._survey_padded(rows, world_size)
        self._first = (world_size, plan)
        made |= {"overlong": plan.overlong, "largest_batch_tokens": most, "trained_on": plan.comparisons}
        return len(plan), counts | made

    def _survey_padded(self, rows: Sequence[Comparison], world_size: int) -> tuple[EpochPlan, int]:
        plan = plan_epoch(rows, self.encoder, self.batch_size * world_size, seed=self.seed, epoch=0)
        return plan, max(map(padded_tokens, plan.batches), default=0) // world_size

    def _survey_packs(self, rows: Sequence[Comparison], world_size: int) -> tuple[PackedPlan, int]:
        """The first epoch in as few passes a step as hold ``packing.tokens``, and the tokens of its largest pack."""
        assert self.packing is not None
        pairs = self.batch_size * world_size
        steps, overlong = draw_steps(rows, self.encoder, pairs=pairs, seed=self.seed, epoch=0)
        self.passes = passes_needed(steps, self.packing, world_size)
        plan = deal(steps, overlong, self.packing, passes=self.passes, world_size=world_size)
        return plan, max((self.packing.work(pack.rows) for packs in plan.passes for pack in packs), default=0)

    def _ranks(self) -> tuple[int, int]:
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)
