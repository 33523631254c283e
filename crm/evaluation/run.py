"""Evaluate a judge. In: a checked `EvaluateConfig`. Out: prediction files, results, a table and a plot."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from rich.console import Console
from rich.table import Table

from crm.dataset.comparisons import make_comparisons
from crm.dataset.load import load_data
from crm.dataset.noise import CriteriaPool
from crm.dataset.suites import parse_suite, suite_names
from crm.evaluation.config import EvaluateConfig
from crm.evaluation.prediction import predict
from crm.evaluation.prediction_file import reading_digest
from crm.evaluation.results import read_predictions, summarise, write_results
from crm.evaluation.topics import topic_table
from crm.io.installed import commit
from crm.io.processes import Processes, start
from crm.judges import OpenedJudge, check_judge, open_judge
from crm.model.encoding import per_character
from crm.report.plots import suite_accuracy
from crm.report.tables import caption, number, suite_table, write_table
from crm.schema import Comparison, Prediction, Result
from crm.votes.splits import Splits

log = logging.getLogger(__name__)


def run_evaluation(config: EvaluateConfig, show: bool = True) -> list[Result]:
    """Have a judge read every wanted suite, both orders, and summarise from the files alone."""
    if config.threads:
        torch.set_num_threads(config.threads)
    check_judge(config)
    splits = load_data(**asdict(config.data), criteria=config.criteria)
    title = config.data.title() if config.criteria == "own" else f"{config.data.name} (criteria={config.criteria})"
    log.info("data %s: %s", title, ", ".join(f"{key} {value}" for key, value in splits.counts.items()))
    names = config.suite.names or suite_names(list(splits.suites), config.suite.noises)
    for name in names:
        parse_suite(name, list(splits.suites))
    processes = start(config.devices, config.nodes)
    opened = open_judge(config, blind=config.criteria == "none")
    suites = {name: suite_comparisons(name, splits, config) for name in names}
    readings = read_suites(opened, suites, config, processes)
    results = summarise(readings.predictions, opened.seeds, f"{opened.name} on {title}", commit())
    if processes.first:
        write_reports(Path(config.run_dir), opened.name, results, facts(config, opened, splits, readings), show)
        write_topics(Path(config.run_dir), topic_table(readings.predictions, topics_of(suites, splits)), results[0])
    return results


def facts(config: EvaluateConfig, opened: OpenedJudge, splits: Splits, readings: SuiteReadings) -> dict[str, Any]:
    """What ``results.json`` says of the run besides its numbers."""
    return opened.facts() | {
        "seed": config.seed,
        "criteria": config.criteria,
        "data": asdict(config.data),
        "rows": splits.counts,
        "files": readings.files,
        "left_out": readings.left_out,
        "cost": {"readings_made": readings.made, "seconds": round(readings.seconds, 1)},
    }


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


def read_suites(
    opened: OpenedJudge, suites: Mapping[str, Sequence[Comparison]], config: EvaluateConfig, processes: Processes
) -> SuiteReadings:
    """Predict every suite that has comparisons; what stands in the files of an earlier run is not read again.

    Raises ``ValueError`` where that gives nothing at all.
    """
    found, started = SuiteReadings(), time.perf_counter()
    for name, comparisons in suites.items():
        if not comparisons:
            log.warning("suite %s is empty: its preferences are ties or have no criteria on that side; left out", name)
            continue
        digest = reading_digest(opened.judge.digest, comparisons)
        path = opened.predictions / digest / f"{name}.jsonl"
        counts = predict(
            opened.judge,
            comparisons,
            suite=name,
            digest=digest,
            path=path,
            progress=config.progress,
            processes=processes,
        )
        predictions = read_predictions(path)
        failures = Counter(row.failure for row in predictions if row.failure is not None)
        told = [*counts.items(), *((f"failed_{kind}", count) for kind, count in sorted(failures.items()))]
        log.info("suite %s: %s -> %s", name, ", ".join(f"{key} {value}" for key, value in told), path)
        found.predictions += predictions
        found.files[name], found.left_out[name] = str(path), counts[opened.judge.left_out]
        found.made += counts["made"]
    found.seconds = time.perf_counter() - started
    unread = sum(found.left_out.values())
    if not found.predictions and unread:
        raise ValueError(
            f"judge={config.judge.name}: all {unread} readings are left out ({opened.judge.left_out}), so there is "
            "nothing to evaluate; the log says why"
        )
    if not found.predictions:
        raise ValueError(f"suite: {', '.join(suites)}: no comparison to evaluate; choose suites that this data fills")
    return found


def suite_comparisons(name: str, splits: Splits, config: EvaluateConfig) -> list[Comparison]:
    """The fixed comparisons of one suite, drawn once; the pool of criteria for noise comes from training rows."""
    spec = parse_suite(name, list(splits.suites))
    pool = CriteriaPool.from_preferences(splits.train) if spec.noise != "none" else None
    comparisons, counts = make_comparisons(
        splits.suites[spec.base],
        direction=spec.direction,
        noise=spec.noise,
        pool=pool,
        seed=config.seed,
        epoch=0,
        criteria_mode=config.criteria,
    )
    log.info("suite %s: %s", name, ", ".join(f"{key} {value}" for key, value in counts.items()))
    return [per_character(row) for row in comparisons] if config.criteria_rendering == "per_character" else comparisons


def write_reports(run_dir: Path, judge: str, results: list[Result], run: Mapping[str, Any], show: bool) -> None:
    """``results.json``, ``results.csv``, ``suites.md``/``.csv``, ``suites.png``, and the table in the terminal."""
    write_results(run_dir, results, run)
    table = suite_table({judge: results})
    write_table(run_dir, "suites", table, caption(results[0].n, results[0].seeds, results[0].config, results[0].commit))
    suite_accuracy(run_dir / "suites.png", {judge: results})
    if show:
        print_table(table, f"Accuracy with 95 % intervals, clustered by prompt ({run_dir})")


def topics_of(suites: Mapping[str, Sequence[Comparison]], splits: Splits) -> dict[str, dict[str, str | None]]:
    """The topic of every comparison of every suite: predictions know none."""
    bases = {base: {row.id: row.topic for row in rows} for base, rows in splits.suites.items()}
    of = {name: bases[parse_suite(name, list(bases)).base] for name in suites}
    return {name: {row.id: of[name][row.preference_id] for row in rows} for name, rows in suites.items()}


def write_topics(run_dir: Path, table: pd.DataFrame, like: Result) -> None:
    """``topics.md``/``.csv`` where some suite has topics to be broken down by; ``like`` is a result of the run."""
    if len(table):
        write_table(run_dir, "topics", table, caption(None, like.seeds, like.config, like.commit))
        log.info("accuracy by topic: %s", run_dir / "topics.md")


def print_table(frame: pd.DataFrame, title: str) -> None:
    """A table for people, in the terminal."""
    table = Table(title=title)
    for column in frame.columns:
        table.add_column(str(column))
    for row in frame.itertuples(index=False):
        table.add_row(*(number(value) if isinstance(value, float) else str(value) for value in row))
    Console().print(table)
