"""Loaders of training, resumable in mid-epoch, and of validation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

from crm.model.batching.batches import Batch
from crm.model.batching.plans import EpochSize, Layout, Plan, plan_epoch
from crm.model.encoding import EncodedComparison, Encoder
from crm.schema import Comparison


class TrainLoader:
    """Batches of one rank, resumable: an epoch per iteration, in optimizer steps of ``step`` comparisons on all ranks.

    ``draw`` gives the comparisons of an epoch and what became of the votes. An epoch depends on (``seed``, epoch)
    alone, so that a position is two integers. Weights make every comparison of an optimizer step count the same.
    """

    def __init__(
        self,
        draw: Callable[[int], tuple[Sequence[Comparison], dict[str, int]]],
        encoder: Encoder,
        layout: Layout,
        *,
        step: int,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        self._draw, self._encoder, self._layout = draw, encoder, layout
        self._step, self._seed, self.rank, self._world_size = step, seed, rank, world_size
        self._epoch = self._next_batch = 0
        self._latest: tuple[int, Plan] | None = None
        self._counts: dict[str, int] = {}

    def plan(self, epoch: int) -> Plan:
        """The plan of an epoch; only the latest is kept."""
        if self._latest is None or self._latest[0] != epoch:
            sizes: dict[str, Any] = {"step": self._step, "world_size": self._world_size}
            sizes["size"] = self.size if epoch else None
            rows, counts = self._draw(epoch)
            plan = plan_epoch(rows, self._encoder, self._layout, **sizes, seed=self._seed, epoch=epoch)
            self._latest = epoch, plan
            if not epoch:
                self._counts = counts | {"overlong": plan.overlong, "trained_on": plan.comparisons}
        return self._latest[1]

    @cached_property
    def size(self) -> EpochSize:
        """Forward passes of an epoch and of an optimizer step."""
        return self.plan(0).size

    def counts(self) -> dict[str, int]:
        """What became of the votes in the first epoch."""
        if not self._counts:
            self.plan(0)
        return self._counts

    def __len__(self) -> int:
        """Forward passes of an epoch."""
        return self.size.passes

    def __iter__(self) -> Iterator[Batch]:
        epoch = self._epoch
        passes = self.plan(epoch).passes
        for index in range(self._next_batch, len(passes)):
            # Moved before the batch is handed out: a checkpoint taken after this batch points past it.
            last = index + 1 == len(passes)
            self._epoch, self._next_batch = (epoch + 1, 0) if last else (epoch, index + 1)
            pack = passes[index][self.rank]
            yield self._layout.collate(pack.rows, pack.weight)

    def state_dict(self) -> dict[str, Any]:
        """Where to go on: the epoch, the next batch in it, and the passes a step, by which batches are counted."""
        return {"epoch": self._epoch, "next_batch": self._next_batch, "passes": self.size.a_step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved position, with the settings of the saved run (`checkpoint_to_resume` compares them).

        Raises ``ValueError`` where a step has another number of passes, as on other devices.
        """
        if state["passes"] != self.size.a_step:
            raise ValueError(
                f"resume: the checkpoint was written with passes={state['passes']}, this run has {self.size.a_step}; "
                "the batches would differ, so change batching.tokens until they are as many or start a new run"
            )
        self._epoch, self._next_batch = int(state["epoch"]), int(state["next_batch"])


class ValidationLoader:
    """Fixed batches in a fixed order: each row on exactly one rank, and as many batches on every rank.

    A rank that has fewer of its own reads a row of weight 0 for each that is missing: where weights are sharded, every
    rank must come to every forward pass.
    """

    def __init__(
        self, encoded: Sequence[EncodedComparison], layout: Layout, *, rank: int = 0, world_size: int = 1
    ) -> None:
        shares = [layout.cut(encoded, index, world_size) for index in range(world_size)]
        self.batches, self._length = shares[rank], max(map(len, shares))
        self._layout, self._some = layout, encoded[:1]

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Batch]:
        yield from map(self._layout.collate, self.batches)
        for _ in range(self._length - len(self.batches)):
            yield self._layout.collate(self._some, 0.0)
