"""Loaders with a position. In: a function that makes one epoch's comparisons. Out: batches, resumable in mid-epoch.

What an epoch holds depends on (seed, epoch) alone, so a position is two integers, and a run that was killed goes on
with exactly the batches that it had not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from crm.data.batches import PaddedBatch, collate
from crm.data.draws import generator
from crm.data.encoding import EncodedComparison, Encoder, Order
from crm.schema import Comparison

WINDOW = 16
"""Batches that are sorted by length together: near-equal lengths pad little, and batches stay random enough."""


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """One epoch, encoded and cut into batches of near-equal length; ``overlong`` rows did not fit and are left out."""

    batches: list[list[EncodedComparison]]
    overlong: int

    @property
    def comparisons(self) -> int:
        """Rows in the epoch, on all ranks together."""
        return sum(map(len, self.batches))

    def left_over(self, world_size: int) -> int:
        """Rows of uneven batches that no rank reads (see `TrainLoader`); 0 on one rank."""
        return sum(len(batch) - max(1, len(batch) - len(batch) % world_size) for batch in self.batches)


def plan_epoch(
    comparisons: Sequence[Comparison], encoder: Encoder, batch_size: int, *, seed: int, epoch: int
) -> EpochPlan:
    """Draw each row's order, drop and count overlong rows, group near-equal lengths, shuffle the batches.

    Comparisons of one preference (direction ``both``) share their order and stay side by side.
    """
    encoded = [encoder.encode(row, draw_order(row.preference_id, seed=seed, epoch=epoch)) for row in comparisons]
    groups: dict[str, list[EncodedComparison]] = {}
    for row in encoded:
        if row is not None:
            groups.setdefault(row.comparison.preference_id, []).append(row)
    length = {key: max(max(row.lengths) for row in rows) for key, rows in groups.items()}
    rng = generator(seed, epoch, "epoch", "batches")
    fitting = [row for key in rng.sample(list(groups), len(groups)) for row in groups[key]]
    batches: list[list[EncodedComparison]] = []
    for start in range(0, len(fitting), batch_size * WINDOW):
        window = fitting[start : start + batch_size * WINDOW]
        window.sort(key=lambda row: length[row.comparison.preference_id])
        cut = [window[at : at + batch_size] for at in range(0, len(window), batch_size)]
        rng.shuffle(cut)
        batches += cut
    return EpochPlan(batches, len(encoded) - len(fitting))


def draw_order(sample_id: str, *, seed: int, epoch: int) -> Order:
    """Which response stands first in training: a coin a sample and epoch, so that no position is worth learning."""
    return "ab" if generator(seed, epoch, sample_id, "order").random() < 0.5 else "ba"


class TrainLoader:
    """Batches of one epoch per iteration, with ``state_dict`` for resuming after the last batch handed out.

    ``batch_size`` is per rank: a global batch of ``batch_size * world_size`` rows is dealt out in turn, so that the
    ranks together read what one process with the global batch would. A last batch that does not deal out evenly is
    trimmed to a multiple of the ranks; of one smaller than that, all ranks read the first row.
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
    ) -> None:
        self._epoch_comparisons = epoch_comparisons
        self._encoder = encoder
        self._global_batch = batch_size * world_size
        self._pad_id = pad_id
        self._seed = seed
        self._rank, self._world_size = rank, world_size
        self._epoch, self._next_batch = 0, 0
        self._plans: dict[int, EpochPlan] = {}
        self._length: int | None = None

    def plan(self, epoch: int) -> EpochPlan:
        """The plan of an epoch; only the latest is kept."""
        if epoch not in self._plans:
            rows = self._epoch_comparisons(epoch)
            self._plans = {epoch: plan_epoch(rows, self._encoder, self._global_batch, seed=self._seed, epoch=epoch)}
        return self._plans[epoch]

    def __len__(self) -> int:
        """Batches of the first epoch, and at most of any other: noise can make more rows fit in one than in another,
        and the trainer counts on equal epochs.
        """
        if self._length is None:
            self._length = len(self.plan(0).batches)
        return self._length

    def __iter__(self) -> Iterator[PaddedBatch]:
        epoch, most = self._epoch, len(self)
        batches = self.plan(epoch).batches[:most]
        for index in range(self._next_batch, len(batches)):
            # The position moves before the batch is handed out: a checkpoint taken after this batch points past it,
            # and after the last one at the next epoch.
            last = index + 1 == len(batches)
            self._epoch, self._next_batch = (epoch + 1, 0) if last else (epoch, index + 1)
            batch = batches[index]
            share = batch[self._rank : len(batch) - len(batch) % self._world_size : self._world_size]
            yield collate(share or batch[:1], self._pad_id)

    def state_dict(self) -> dict[str, Any]:
        """Where to go on: the epoch, the next batch in it, and what the plan depends on."""
        return {"epoch": self._epoch, "next_batch": self._next_batch, **self._signature()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved position. Raises ``ValueError`` when seed or global batch differ from the saved run's."""
        for name, value in self._signature().items():
            if state[name] != value:
                raise ValueError(
                    f"resume: the checkpoint was written with {name}={state[name]}, this run has {value}; "
                    "the batches would differ, so use the same value or start a new run"
                )
        self._epoch, self._next_batch = int(state["epoch"]), int(state["next_batch"])

    def _signature(self) -> dict[str, int]:
        return {"seed": self._seed, "global_batch": self._global_batch}


class EvaluationLoader:
    """Fixed batches in a fixed order, each row on exactly one rank; rows sorted by length to pad little."""

    def __init__(
        self,
        encoded: Sequence[EncodedComparison],
        *,
        batch_size: int,
        pad_id: int,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        rows = sorted(encoded, key=lambda row: max(row.lengths))[rank::world_size]
        self._batches = [rows[at : at + batch_size] for at in range(0, len(rows), batch_size)]
        self._pad_id = pad_id

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[PaddedBatch]:
        return (collate(batch, self._pad_id) for batch in self._batches)
