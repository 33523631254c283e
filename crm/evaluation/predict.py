"""Read comparisons with a reward model. In: comparisons. Out: logits in both orders, appended to a prediction file.

An interrupted run goes on where it stopped: every (comparison, order) stands in the file exactly once, under one
fingerprint of checkpoint, template and data.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from rich.progress import Progress

from crm.data.batches import collate
from crm.data.encoding import EncodedComparison, Encoder, Order
from crm.data.even import Batch
from crm.data.packs import Packing, fill
from crm.evaluation.prediction_file import finished, share_of
from crm.models.export import load_checkpoint
from crm.models.reward_model import RewardModel
from crm.processes import ALONE, Processes
from crm.schema import Comparison, Prediction, to_json

log = logging.getLogger(__name__)
WINDOW = 16
"""Batches sorted by length together: little padding, and predictions still reach the file in small portions."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One comparison in one order. ``preference_logit`` and the scores are about the record's responses A and B."""

    comparison: Comparison
    order: Order
    preference_logit: float
    score_a: float | None
    score_b: float | None


class Judge:
    """A reward model ready to read: model, encoder, device, precision and batches in one place.

    With a ``packing``, comparisons of one prompt that stand in one portion share what they can; an architecture that
    is not known to pack is read in padded batches all the same.
    """

    def __init__(
        self,
        model: RewardModel,
        encoder: Encoder,
        *,
        batch_size: int,
        precision: str = "32-true",
        packing: Packing | None = None,
    ) -> None:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = model.to(device).eval()
        self.encoder = encoder
        self.batch_size = batch_size
        self.packing = packing if model.reads_forests else None
        self._pad_id = int(encoder.tokenizer.pad_token_id)
        self._precision = precision
        self._autocast = torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16-mixed")

    @property
    def digest(self) -> str:
        """Digest of template and precision: readings in bfloat16 never mix with readings in float32."""
        return f"{self.encoder.digest}-{self._precision}"

    def read(self, comparisons: Sequence[tuple[Comparison, Order]]) -> Iterator[list[Reading]]:
        """Readings in portions of a few batches; a comparison too long for the model gives none (count the difference).

        A scalar head scores each response by itself, so one pass serves both orders: what is asked for in order
        ``ba`` is read off the ``ab`` pass when both stand in one portion.
        """
        portion = self.batch_size * WINDOW
        for start in range(0, len(comparisons), portion):
            encoded = [self.encoder.encode(*pair) for pair in comparisons[start : start + portion]]
            yield self._read_portion([row for row in encoded if row is not None])

    def _read_portion(self, rows: list[EncodedComparison]) -> list[Reading]:
        return [reading for batch in self._batches(rows) for reading in self._read_batch(batch)]

    def _batches(self, rows: list[EncodedComparison]) -> list[list[EncodedComparison]]:
        if self.packing:
            return fill(rows, self.packing)
        rows = sorted(rows, key=lambda row: (max(row.lengths), row.comparison.id))
        return [rows[at : at + self.batch_size] for at in range(0, len(rows), self.batch_size)]

    @torch.inference_mode()
    def _read_batch(self, rows: list[EncodedComparison]) -> list[Reading]:
        batch: Batch = self.packing.collate(rows) if self.packing else collate(rows, self._pad_id)
        batch = batch.to(self.model.device)
        with self._autocast:
            output = self.model(batch)
        logits = (output.preference_logit * batch.sign).tolist()
        scores = output.scores.tolist() if output.scores is not None else [(None, None)] * len(rows)
        readings = []
        for row, logit, (first, second) in zip(rows, logits, scores, strict=True):
            a, b = (first, second) if row.order == "ab" else (second, first)
            readings.append(Reading(row.comparison, row.order, logit, a, b))
        return readings


def open_judge(
    folder: Path, *, batch_size: int, precision: str, packing: Packing | None = None
) -> tuple[Judge, dict[str, Any]]:
    """A checkpoint folder as a judge, and its manifest. Raises ``ValueError`` as `load_checkpoint` does."""
    model, tokenizer, manifest = load_checkpoint(folder)
    encoder = Encoder(tokenizer, model.head, int(manifest["max_length"]), manifest["prompt_order"])
    return Judge(model, encoder, batch_size=batch_size, precision=precision, packing=packing), manifest


def fingerprint(model_digest: str, template_digest: str, comparisons: Sequence[Comparison]) -> str:
    """16 hex digits of checkpoint, template and every byte of the comparisons, in any order of them."""
    rows = sorted(hashlib.sha256(to_json(row).encode("utf-8", "surrogatepass")).hexdigest() for row in comparisons)
    return hashlib.sha256("|".join([model_digest, template_digest, *rows]).encode()).hexdigest()[:16]


def predict(
    judge: Judge,
    comparisons: Sequence[Comparison],
    *,
    suite: str,
    print_of_run: str,
    path: Path,
    progress: bool,
    processes: Processes = ALONE,
) -> dict[str, int]:
    """Append the missing predictions of a suite to ``path``; counts of read, already there, made, and too long.

    Several processes each read a block of what is missing into a file of their own, and the first one puts them
    together; another run at the same file waits. A line that a kill cut off is removed first. Raises ``ValueError``
    when the file belongs to another fingerprint, or when two comparisons share an id.
    """
    if len({row.id for row in comparisons}) < len(comparisons):
        twice = next(name for name, count in Counter(row.id for row in comparisons).items() if count > 1)
        raise ValueError(f"suite {suite}: the comparison id {twice!r} occurs twice; every row needs an id of its own")
    wanted: list[tuple[Comparison, Order]] = [(row, order) for row in comparisons for order in ("ab", "ba")]
    with _held(path, processes):
        done = processes.from_first(lambda: finished(path, print_of_run))
        missing = [pair for pair in wanted if (pair[0].id, pair[1]) not in done]
        own = processes.share(missing)
        file = path if processes.size == 1 else share_of(path, processes.rank)
        made = _append(judge, own, suite, print_of_run, file, progress and processes.first)
        if processes.size > 1:
            processes.wait()
            made = len(processes.from_first(lambda: finished(path, print_of_run))) - len(done)
    return {"readings": len(wanted), "already_there": len(done), "made": made, "too_long": len(missing) - made}


@contextmanager
def _held(path: Path, processes: Processes) -> Iterator[None]:
    """Have ``path`` for this run alone: two at once would each append what both found missing."""
    lock = FileLock(path.with_name(f".{path.name}.lock"))

    def take() -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            log.info("another run writes %s; waiting for it", path)
            lock.acquire()

    processes.from_first(take)
    try:
        yield
    finally:
        if processes.first:
            lock.release()


def _append(
    judge: Judge, pairs: Sequence[tuple[Comparison, Order]], suite: str, print_of_run: str, path: Path, progress: bool
) -> int:
    """Read ``pairs`` and append them to ``path``; how many readings that gave."""
    made = 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file, Progress(disable=not progress, transient=True) as bar:
        task = bar.add_task(f"{suite:>12}", total=len(pairs))
        for readings in judge.read(pairs):
            for reading in readings:
                file.write(to_json(_prediction(reading, suite, print_of_run)) + "\n")
            file.flush()
            made += len(readings)
            bar.advance(task, len(readings))
    return made


def _prediction(reading: Reading, suite: str, print_of_run: str) -> Prediction:
    return Prediction(
        comparison_id=reading.comparison.id,
        order=reading.order,
        preference_logit=reading.preference_logit,
        label=reading.comparison.label,
        cluster=reading.comparison.cluster,
        suite=suite,
        fingerprint=print_of_run,
        score_a=reading.score_a,
        score_b=reading.score_b,
    )
