"""Evaluate a checkpoint. In: a checked `EvaluateConfig`. Out: prediction files, results, a table and a plot."""

from __future__ import annotations

import logging
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import torch
from rich.console import Console
from rich.table import Table

from crm.config import EvaluateConfig
from crm.data.comparisons import make_comparisons
from crm.data.encoding import per_character
from crm.data.loading import load_splits
from crm.data.noise import CriteriaPool
from crm.data.packs import packing_named
from crm.data.sources import Splits
from crm.data.suites import parse_suite, suite_names
from crm.evaluation.plots import suite_accuracy
from crm.evaluation.predict import fingerprint, open_judge, predict
from crm.evaluation.results import read_predictions, summarise, write_results
from crm.evaluation.tables import caption, number, suite_table, write_table
from crm.models.export import read_manifest
from crm.processes import start
from crm.provenance import commit
from crm.schema import Comparison, Prediction, Result

log = logging.getLogger(__name__)


def run_evaluation(config: EvaluateConfig, show: bool = True) -> list[Result]:
    """Predict every wanted suite, both orders, and summarise from the files alone."""
    if config.threads:
        torch.set_num_threads(config.threads)
    folder = Path(config.checkpoint)
    read_manifest(folder)
    splits = load_splits(**asdict(config.data))
    names = config.suite.names or suite_names(list(splits.suites), config.suite.noises)
    for name in names:
        parse_suite(name, list(splits.suites))
    processes = start(config.devices, config.nodes)
    judge, manifest = open_judge(
        folder,
        batch_size=config.batch_size,
        precision=config.precision,
        packing=packing_named(config.batching.name, config.batching.tokens),
    )
    predictions_dir = Path(config.predictions) if config.predictions else folder.parent / "predictions"
    predictions: list[Prediction] = []
    for name in names:
        comparisons = suite_comparisons(name, splits, config)
        if not comparisons:
            log.warning("suite %s is empty: its preferences are ties or have no criteria on that side; left out", name)
            continue
        mark = fingerprint(manifest["digest"], judge.digest, comparisons)
        path = predictions_dir / mark / f"{name}.jsonl"
        counts = predict(
            judge,
            comparisons,
            suite=name,
            print_of_run=mark,
            path=path,
            progress=config.progress,
            processes=processes,
        )
        log.info("suite %s: %s -> %s", name, ", ".join(f"{key} {value}" for key, value in counts.items()), path)
        predictions += read_predictions(path)
    if not predictions:
        raise ValueError(f"suite: {', '.join(names)}: no comparison to evaluate; choose suites that this data fills")
    results = summarise(predictions, [int(manifest["seed"])], f"{manifest['head']} on {config.data.name}", commit())
    if processes.first:
        write_reports(Path(config.run_dir), manifest["head"], results, show)
    return results


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


def write_reports(run_dir: Path, head: str, results: list[Result], show: bool) -> None:
    """``results.json``, ``results.csv``, ``suites.md``/``.csv``, ``suites.png``, and the table in the terminal."""
    write_results(run_dir, results)
    table = suite_table({head: results})
    write_table(run_dir, "suites", table, caption(results[0].n, results[0].seeds, results[0].config, results[0].commit))
    suite_accuracy(run_dir / "suites.png", {head: results})
    if show:
        print_table(table, f"Accuracy with 95 % intervals, clustered by prompt ({run_dir})")


def print_table(frame: pd.DataFrame, title: str) -> None:
    """A table for people, in the terminal."""
    table = Table(title=title)
    for column in frame.columns:
        table.add_column(str(column))
    for row in frame.itertuples(index=False):
        table.add_row(*(number(value) if isinstance(value, float) else str(value) for value in row))
    Console().print(table)
