"""Suites read by a judge. In: comparisons by suite. Out: their predictions, from files that go on where they stopped.

A checkpoint reads under a trainer, all suites in one go; any other judge reads suite by suite.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import lightning as L

from crm.evaluation.config import EvaluateConfig
from crm.evaluation.datamodule import EvaluationDataModule
from crm.evaluation.lit_judge import LitJudge
from crm.evaluation.prediction_file import predict, read_predictions, reading_digest
from crm.evaluation.samples import to_samples
from crm.io.processes import Processes, start
from crm.judges import OpenedJudge
from crm.judges.crm_judge import CrmJudge
from crm.schema import Comparison, Prediction
from crm.training.devices import prediction_trainer, settle_precision

log = logging.getLogger(__name__)
WAY_OUT = (
    "its replies do not end with a verdict: raise judge.max_tokens or take another judge.model; 'Verdicts in words' in "
    "docs/evaluation.md says what is accepted"
)
Suites = Mapping[str, Sequence[Comparison]]


@dataclass
class SuiteReadings:
    """What a judge said of the suites of a run; ``left_out`` counts the readings that it did not give, by suite.

    ``made`` are the readings of this run, which took ``seconds``: what stood in a file before cost nothing.
    """

    predictions: list[Prediction] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    made: int = 0
    seconds: float = 0.0

    def add(self, suite: str, path: Path, counts: Mapping[str, int], left_out: str) -> None:
        """Take up a suite from its file; ``left_out`` is the judge's word for what has no reading."""
        predictions = read_predictions(path)
        failures = Counter(row.failure for row in predictions if row.failure is not None)
        told = [*counts.items(), *((f"failed_{kind}", count) for kind, count in sorted(failures.items()))]
        log.info("suite %s: %s -> %s", suite, ", ".join(f"{key} {value}" for key, value in told), path)
        self.predictions += predictions
        self.files[suite], self.left_out[suite] = str(path), counts[left_out]
        self.made += counts["made"]


def reader(config: EvaluateConfig) -> Processes | L.Trainer:
    """Who reads: a trainer for a checkpoint, else processes. Settles ``config.precision`` where that was ``auto``."""
    trainer = prediction_trainer(config.trainer, Path(config.run_dir)) if config.judge.name == "crm" else None
    settle_precision(config.trainer)
    config.precision = config.trainer.precision
    return trainer or start(config.devices, config.nodes)


def is_first(by: Processes | L.Trainer) -> bool:
    """Whether this process writes what is written once."""
    return by.first if isinstance(by, Processes) else by.is_global_zero


def read_suites(
    opened: OpenedJudge, suites: Suites, config: EvaluateConfig, by: Processes | L.Trainer
) -> SuiteReadings:
    """Predict every suite that has comparisons; what stands in the files of an earlier run is not read again.

    ``by`` what `reader` gave. Raises ``ValueError`` where there is no reading at all, or no comparison has a verdict.
    """
    found, started = SuiteReadings(), time.perf_counter()
    for name, comparisons in suites.items():
        if not comparisons:
            log.warning("suite %s is empty: its preferences are ties or have no criteria on that side; left out", name)
    filled = {name: comparisons for name, comparisons in suites.items() if comparisons}
    if isinstance(by, Processes):
        _read_in_turn(opened, filled, found, config.progress, by)
    elif filled:
        _read_under(by, opened, filled, found, config.progress)
    found.seconds = time.perf_counter() - started
    unread = sum(found.left_out.values())
    if not found.predictions and unread:
        raise ValueError(
            f"judge={config.judge.name}: all {unread} readings are left out ({opened.judge.left_out}), so there is "
            "nothing to evaluate; the log says why"
        )
    if not found.predictions:
        raise ValueError(f"suite: {', '.join(suites)}: no comparison to evaluate; choose suites that this data fills")
    if all(sample.failures for samples in to_samples(found.predictions).values() for sample in samples):
        kinds = Counter(row.failure for row in found.predictions if row.failure is not None)
        said = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
        raise ValueError(
            f"judge={config.judge.name}: no comparison has a verdict ({len(found.predictions)} readings: {said}), so "
            f"there is nothing to evaluate; {WAY_OUT if config.judge.name == 'llm' else 'take another judge'}"
        )
    return found


def _read_in_turn(
    opened: OpenedJudge, suites: Suites, found: SuiteReadings, progress: bool, processes: Processes
) -> None:
    for name, comparisons in suites.items():
        digest = reading_digest(opened.judge.digest, comparisons)
        path = opened.predictions / digest / f"{name}.jsonl"
        counts = predict(
            opened.judge, comparisons, suite=name, digest=digest, path=path, progress=progress, processes=processes
        )
        found.add(name, path, counts, opened.judge.left_out)


def _read_under(trainer: L.Trainer, opened: OpenedJudge, suites: Suites, found: SuiteReadings, progress: bool) -> None:
    judge = opened.judge
    assert isinstance(judge, CrmJudge), "others read by themselves"
    data = EvaluationDataModule(judge, suites, opened.predictions)
    try:
        trainer.predict(LitJudge(judge, progress), datamodule=data, return_predictions=False)
    except SystemExit as end:
        if isinstance(end.__context__, KeyboardInterrupt):  # which Lightning turns into an exit
            raise KeyboardInterrupt from None
        raise
    for file in data.files:
        found.add(file.suite, file.path, data.counts[file.suite], judge.left_out)
