"""Loaders of training, resumable in mid-epoch, and of evaluation.

What an epoch holds depends on (seed, epoch) alone, so a position is two integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from crm.model.batching.batches import Batch, collate
from crm.model.batching.plans import EpochPlan, PackedPlan, Packing, fill, plan_epoch, plan_packed_epoch
from crm.model.encoding import EncodedComparison, Encoder
from crm.schema import Comparison


class TrainLoader:
    """Batches of one epoch per iteration, with ``state_dict`` for resuming after the last batch handed out.

    ``batch_size`` is per rank: a global batch of ``batch_size * world_size`` rows is dealt out in turn, so that the
    ranks together read what one process with the global batch would. Weights make every comparison of an optimizer
    step of ``passes`` batches count the same, also where a batch does not deal out evenly or the last step of an epoch
    has fewer; a rank without a row of its own reads another's, with weight 0.

    With a ``packing``, ``batch_size`` is that of an optimizer step, which is dealt out to ``passes`` packs a rank, of
    near-equal work. ``first`` is the plan of the first epoch, where it has been drawn already.
    """

    def __init__(
        self,
        epoch_comparisons: Callable[[int], Sequence[Comparison]],
        encoder: Encoder,
        *,
        batch_size: int,
        pad_id: int,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
        packing: Packing | None = None,
        passes: int = 1,
        first: EpochPlan | PackedPlan | None = None,
    ) -> None:
        self._epoch_comparisons = epoch_comparisons
        self._encoder = encoder
        self._packing, self._passes = packing, passes
        self._global_batch = batch_size * world_size
        self._pad_id = pad_id
        self._seed = seed
        self._rank, self._world_size = rank, world_size
        self._epoch, self._next_batch = 0, 0
        self._plans = {} if first is None else {0: first}
        self._length: int | None = None

    def plan(self, epoch: int) -> EpochPlan | PackedPlan:
        """The plan of an epoch; only the latest is kept."""
        if epoch not in self._plans:
            rows, drawn = self._epoch_comparisons(epoch), {"seed": self._seed, "epoch": epoch}
            if self._packing is None:
                self._plans = {epoch: plan_epoch(rows, self._encoder, self._global_batch, **drawn)}
            else:
                steps = len(self) // self._passes if epoch else None
                sizes = {"pairs": self._global_batch, "passes": self._passes, "world_size": self._world_size}
                plan = plan_packed_epoch(rows, self._encoder, self._packing, **sizes, **drawn, steps=steps)
                self._plans = {epoch: plan}
        return self._plans[epoch]

    def __len__(self) -> int:
        """Batches of the first epoch, and at most of any other: noise can make more rows fit in one than in another,
        and the trainer counts on equal epochs. Packs of a later epoch are cut to that number, so that all its rows are
        read.
        """
        if self._length is None:
            self._length = len(self.plan(0))
        return self._length

    def __iter__(self) -> Iterator[Batch]:
        epoch, most = self._epoch, len(self)
        plan = self.plan(epoch)
        end = min(most, len(plan))
        for index in range(self._next_batch, end):
            # Moved before the batch is handed out: a checkpoint taken after this batch points past it.
            last = index + 1 == end
            self._epoch, self._next_batch = (epoch + 1, 0) if last else (epoch, index + 1)
            pack = plan.share(index, self._rank, self._world_size, self._passes, end)
            if self._packing:
                yield self._packing.collate(pack.rows, pack.weight)
            else:
                yield collate(pack.rows, self._pad_id, pack.weight)

    def state_dict(self) -> dict[str, Any]:
        """Where to go on: the epoch, the next batch in it, and what the plan depends on."""
        return {"epoch": self._epoch, "next_batch": self._next_batch, **self._signature()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved position. Raises ``ValueError`` when seed or global batch differ from the saved run's."""
        for name, value in self._signature().items():
            if state.get(name) != value:
                raise ValueError(
                    f"resume: the checkpoint was written with {name}={state.get(name)}, this run has {value}; "
                    "the batches would differ, so use the same value or start a new run"
                )
        self._epoch, self._next_batch = int(state["epoch"]), int(state["next_batch"])

    def _signature(self) -> dict[str, int | str]:
        kind = "tree" if self._packing else "padded"
        packed = {"passes": self._passes, "processes": self._world_size} if self._packing else {}
        return {"seed": self._seed, "global_batch": self._global_batch, "batching": kind, **packed}


class EvaluationLoader:
    """Fixed batches in a fixed order, each row on exactly one rank; sorted by length to pad little, or in packs."""

    def __init__(
        self,
        encoded: Sequence[EncodedComparison],
        *,
        batch_size: int,
        pad_id: int,
        rank: int = 0,
        world_size: int = 1,
        packing: Packing | None = None,
    ) -> None:
        self._pad_id, self._packing = pad_id, packing
        self.batches: list[list[EncodedComparison]]
        """Rows of every batch, in the order in which they are read."""
        if packing:  # neighbours may share beginnings
            start, end = (len(encoded) * index // world_size for index in (rank, rank + 1))
            self.batches = fill(encoded[start:end], packing)
            return
        rows = sorted(encoded, key=lambda row: max(row.lengths))[rank::world_size]
        self.batches = [rows[at : at + batch_size] for at in range(0, len(rows), batch_size)]

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Batch]:
        return (self._packing.collate(rows) if self._packing else collate(rows, self._pad_id) for rows in self.batches)
