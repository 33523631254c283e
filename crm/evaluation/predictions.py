"""Predictions as JSON lines: a judge reads what a suite's file lacks; both orders of a comparison make a sample."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.progress import Progress

from crm.io.files import joined_lines, part_of
from crm.io.processes import ALONE, Processes
from crm.io.rows import Intake
from crm.judges.judge import Asked, Judge
from crm.schema import Comparison, Prediction, to_json


def reading_digest(judge_digest: str, comparisons: Sequence[Comparison]) -> str:
    """Cache key, 16 hex digits, of a judge and the texts of the comparisons in any order."""
    rows = sorted(hashlib.sha256(to_json(row).encode("utf-8", "surrogatepass")).hexdigest() for row in comparisons)
    return hashlib.sha256("|".join([judge_digest, *rows]).encode()).hexdigest()[:16]


def read_predictions(path: Path | str) -> list[Prediction]:
    """Read a prediction file; a bad line raises ``ValueError`` with ``file:line: field: why``."""
    return list(Intake(strict=True).rows(Path(path), lambda row, _: Prediction.from_dict(row)))


def predict(
    judge: Judge,
    comparisons: Sequence[Comparison],
    folder: Path,
    *,
    suite: str,
    name: str = "",
    progress: bool,
    processes: Processes = ALONE,
) -> tuple[Path, list[Prediction], dict[str, int]]:
    """Read what ``<folder>/<digest>/<name or suite>.jsonl`` lacks of a suite; the file, its rows, and counts.

    Counts are of readings wanted, already there, made, and left out. Each process reads a block.
    """
    digest = reading_digest(judge.digest, comparisons)
    path = folder / digest / f"{name or suite}.jsonl"
    done = processes.from_first(lambda: _keys(path))
    asked: list[Asked] = [(row, order) for row in comparisons for order in ("ab", "ba")]
    missing = [pair for pair in asked if (pair[0].id, pair[1]) not in done]
    share = processes.share(missing)
    with (
        part_of(path, processes.rank).open("a", encoding="utf-8") as file,
        Progress(disable=not (progress and processes.first), transient=True) as bar,
    ):
        task = bar.add_task(f"{suite:>12}", total=len(share))
        for readings in judge.read(share):
            for found in readings:
                of = found.comparison
                row = Prediction(
                    of.id, found.order, found.preference_logit, of.label, of.cluster, suite, digest,
                    found.score_a, found.score_b, found.failure, found.tokens,
                )  # fmt: skip
                file.write(to_json(row) + "\n")
            file.flush()
            bar.advance(task, len(readings))
    processes.wait()
    made = len(processes.from_first(lambda: _keys(path))) - len(done)
    counts = {"readings": len(asked), "already_there": len(done), "made": made, judge.left_out: len(missing) - made}
    return path, read_predictions(path), counts


def _keys(path: Path) -> set[tuple[str, str]]:
    """Comparison ids and orders of the rows in a file."""
    return {(row["comparison_id"], row["order"]) for row in map(json.loads, joined_lines(path))}


@dataclass(frozen=True)
class Sample:
    """One comparison with its orders put together: mean ``logit``, 1 if the label is A else 0 (None for a tie).

    ``failures`` are those of its readings; with any, or with an order that has no reading, it has no verdict, and
    ``logit`` is NaN. ``tokens`` is the sum over its readings, NaN where one of them is not known.
    """

    comparison_id: str
    cluster: str
    label: int | None
    logit: float
    orders: dict[str, float]
    failures: tuple[str, ...] = ()
    tokens: float = math.nan

    @property
    def judged(self) -> bool:
        """Whether there is a verdict."""
        return not math.isnan(self.logit)


def to_samples(predictions: Iterable[Prediction]) -> dict[str, list[Sample]]:
    """The samples of every suite, sorted by id so that the order of the files does not matter."""
    suites: dict[str, dict[str, dict[str, Prediction]]] = {}
    for row in predictions:
        suites.setdefault(row.suite, {}).setdefault(row.comparison_id, {}).setdefault(row.order, row)
    return {suite: [_sample(rows[key]) for key in sorted(rows)] for suite, rows in suites.items()}


def _sample(readings: Mapping[str, Prediction]) -> Sample:
    first = next(iter(readings.values()))
    label = None if first.label == "tie" else int(first.label == "a")
    failures = tuple(reading.failure for reading in readings.values() if reading.failure is not None)
    orders = {name: r.preference_logit for name, r in readings.items() if r.preference_logit is not None}
    logit = sum(orders.values()) / 2 if len(orders) == 2 else math.nan
    tokens = float(sum(math.nan if reading.tokens is None else reading.tokens for reading in readings.values()))
    return Sample(first.comparison_id, first.cluster, label, logit, orders, failures, tokens)
