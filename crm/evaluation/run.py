"""Evaluate a judge. In: a checked `EvaluateConfig`. Out: prediction files, results, a table and a plot."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from crm.dataset.load import load_data
from crm.dataset.suites import fixed_suites, parse_suite, suite_names
from crm.evaluation.config import EvaluateConfig
from crm.evaluation.readings import SuiteReadings, is_first, read_suites, reader
from crm.evaluation.results import summarise, write_results
from crm.evaluation.topics import topic_table
from crm.io.installed import commit
from crm.judges import OpenedJudge, check_judge, open_judge
from crm.model.backbone import show_loading
from crm.model.config import training_config
from crm.report.plots import suite_accuracy
from crm.report.tables import caption, suite_table, write_table
from crm.report.terminal import print_table
from crm.report.trackers import check_tracker, track
from crm.schema import Comparison, Result
from crm.votes.splits import Splits

log = logging.getLogger(__name__)


def run_evaluation(config: EvaluateConfig, show: bool = True) -> list[Result]:
    """Have a judge read every wanted suite, both orders, and summarise from the files alone."""
    if config.threads:
        torch.set_num_threads(config.threads)
    show_loading(config.progress)
    check_judge(config)
    check_tracker(config.logger.kinds)
    by = reader(config)
    _check_recorded(config)
    splits = load_data(**asdict(config.data), criteria=config.criteria)
    title = config.data.title() + ("" if config.criteria == "own" else f" (criteria={config.criteria})")
    log.info("data %s: %s", title, ", ".join(f"{key} {value}" for key, value in splits.counts.items()))
    names = config.suite.names or suite_names(list(splits.suites), config.suite.noises)
    for name in names:
        parse_suite(name, list(splits.suites))
    opened = open_judge(config, blind=config.criteria == "none")
    suites = comparisons_of(names, splits, config)
    readings = read_suites(opened, suites, config, by)
    results = summarise(readings.predictions, opened.seeds, f"{opened.name} on {title}", commit())
    if is_first(by):
        write_reports(Path(config.run_dir), opened.name, results, facts(config, opened, splits, readings), show)
        track(
            config.logger,
            Path(config.run_dir),
            name=f"{opened.name} on {title}",
            group="evaluate",
            config=asdict(config),
            numbers={f"{result.suite}/{result.metric}": result.value for result in results},
            tables={"suites": suite_table({opened.name: results})},
        )
        write_topics(Path(config.run_dir), topic_table(readings.predictions, topics_of(suites, splits)), results[0])
    return results


def _check_recorded(config: EvaluateConfig) -> None:
    """Raise ``ValueError`` where the file that the checkpoint was trained on is gone; warn where data are simulated."""
    path, record = config.data.path, training_config(config.checkpoint).get("data") or {}
    if path and path == record.get("path") and not path.startswith("hf://") and not Path(path).exists():
        raise ValueError(
            f"data.path={path!r}: {config.checkpoint} was trained on this file, and it is gone; name the data to "
            "evaluate on: data=<file or folder>, or data=simulation"
        )
    if config.data.name == "simulation" and record.get("name") != "simulation":
        log.warning("data=simulation: simulated votes, not yours; to evaluate on your own: data=<file or folder>")


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


def comparisons_of(names: Sequence[str], splits: Splits, config: EvaluateConfig) -> dict[str, list[Comparison]]:
    """The fixed comparisons of every suite, rendered as configured."""
    written = Path(str(config.data.path)) if config.data.name == "dataset" else None
    suites = {}
    for name, (rows, counts) in fixed_suites(names, splits, written=written, criteria_mode=config.criteria).items():
        log.info("suite %s: %s", name, ", ".join(f"{key} {value}" for key, value in counts.items()))
        suites[name] = rows
    return suites


def write_reports(run_dir: Path, judge: str, results: list[Result], run: Mapping[str, Any], show: bool) -> None:
    """``results.json``, ``results.csv``, ``suites.md``/``.csv``, ``suites.png``, and the table in the terminal."""
    write_results(run_dir, results, run)
    table = suite_table({judge: results})
    line = caption(results[0].n, results[0].seeds, results[0].config, results[0].commit)
    lacking = sum(run.get("left_out", {}).values())
    write_table(run_dir, "suites", table, line + f"; {lacking} readings left out" * bool(lacking))
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
