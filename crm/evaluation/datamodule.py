"""Suites as prediction loaders. In: a checkpoint's judge and comparisons by suite. Out: batches of what is missing.

    trainer = L.Trainer(accelerator="gpu", devices=2, strategy="ddp", logger=False)
    data = EvaluationDataModule(judge, suites, Path("predictions"))
    trainer.predict(LitJudge(judge), datamodule=data, return_predictions=False)

Every suite has a loader and a prediction file, ``<folder>/<digest>/<suite>.jsonl``. What stands in the file of an
earlier run is not read again, and batches are those that `crm.evaluation.prediction_file.predict` would read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import lightning as L
import torch

from crm.evaluation.prediction_file import SuiteFile, reading_digest
from crm.io.processes import ALONE, Processes
from crm.judges import CrmJudge
from crm.model.batching.batches import Batch
from crm.model.encoding import EncodedComparison
from crm.schema import Comparison

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RowBatch:
    """One forward pass and the B comparisons that it reads: none where it only keeps a rank in step with others."""

    rows: Sequence[EncodedComparison]
    batch: Batch

    def to(self, device: torch.device | str, non_blocking: bool = False) -> RowBatch:
        """The same on another device; Lightning asks for it."""
        return RowBatch(self.rows, self.batch.to(device))


class SuiteLoader:
    """The batches of one process: composed a portion at a time, so that reading starts at once.

    Passes whose readings all stand in the file are left out. ``in_step`` composes everything first and fills up with
    passes that count nothing to as many as the ``most`` that any process has (`EvaluationDataModule` sets it).
    """

    def __init__(self, judge: CrmJudge, file: SuiteFile) -> None:
        self._judge, self._file = judge, file
        self.most = 0

    def __iter__(self) -> Iterator[RowBatch]:
        count = 0
        for rows in self.passes():
            count += 1
            yield RowBatch(rows, self._judge.collate(rows))
        if count < self.most:
            filler = RowBatch((), self._judge.collate([self._any_row()]))
            yield from (filler for _ in range(self.most - count))

    def passes(self) -> Iterator[list[EncodedComparison]]:
        """Rows of every forward pass."""
        for portion in self._file.portions():
            for rows in self._judge.compose(portion):
                if any(self._file.lacks(row.comparison.id, row.order) for row in rows):
                    yield rows

    def _any_row(self) -> EncodedComparison:
        encoded = (self._judge.encoder.encode(*pair) for pair in self._file.wanted)
        return next(row for row in encoded if row is not None)  # another process has a pass, so that some row fits


class EvaluationDataModule(L.LightningDataModule):
    """One loader and one prediction file a suite, in the order of ``suites``; empty suites have neither.

    Each process reads its share, and when all are through the first one puts the shares together. ``counts`` then has,
    by suite, the readings wanted, already there, made, and left out. Raises ``ValueError`` for two comparisons of one
    id, for a file of another judge, and for a trainer of another precision than the one that the files are named by.
    """

    def __init__(self, judge: CrmJudge, suites: Mapping[str, Sequence[Comparison]], folder: Path) -> None:
        super().__init__()
        self.judge = judge
        self.files = [_file(judge, name, rows, folder) for name, rows in suites.items() if rows]
        self.counts: dict[str, dict[str, int]] = {}

    def setup(self, stage: str) -> None:
        """Take the files and see what they lack: all processes together, in an order that two runs share."""
        assert self.trainer is not None, "a trainer asks for it"
        precision = str(self.trainer.precision)
        if precision != self.judge.precision:
            raise ValueError(
                f"trainer.precision={precision!r}: the judge was opened for {self.judge.precision!r}, which its "
                "prediction files are named by; give both the same"
            )
        processes = Processes(self.trainer.strategy) if self.trainer.world_size > 1 else ALONE  # type: ignore[arg-type]
        for file in sorted(self.files, key=lambda file: file.path):
            file.begin(processes)

    def predict_dataloader(self) -> list[SuiteLoader]:
        """A loader a suite; where weights are sharded, and every pass is a meeting, as many passes on every rank."""
        loaders = [SuiteLoader(self.judge, file) for file in self.files]
        assert self.trainer is not None and self.trainer.lightning_module is not None
        if self.trainer.lightning_module.device_mesh is not None:
            strategy = self.trainer.strategy
            for loader in loaders:
                own = torch.tensor(sum(1 for _ in loader.passes()), device=strategy.root_device)
                loader.most = int(strategy.reduce(own, reduce_op="max"))
        return loaders

    def teardown(self, stage: str) -> None:
        """Put the shares of all processes together and count."""
        self.counts = {file.suite: file.finish() for file in self.files}

    def on_exception(self, exception: BaseException) -> None:
        """Let the files go: what was appended stays for the next run."""
        for file in self.files:
            file.abandon()


def _file(judge: CrmJudge, suite: str, rows: Sequence[Comparison], folder: Path) -> SuiteFile:
    digest = reading_digest(judge.digest, rows)
    return SuiteFile(judge, rows, suite=suite, digest=digest, path=folder / digest / f"{suite}.jsonl")
