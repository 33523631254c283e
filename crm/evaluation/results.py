"""Prediction files in; one `Result` per suite and metric out, kept as ``results.json``.

The two orders of a comparison are one sample: their logits are averaged. Comparisons labelled ``tie`` have no right
answer; they are counted (``n_ties``) and left out of the metrics that need one. So are comparisons on which the judge
failed in one order or both, or that it read in one order alone: no verdict is not a wrong one. ``failure_rate`` and
``n_one_order`` say how many there are.
"""

from __future__ import annotations

import json
import math
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from scipy import special

from crm import __version__
from crm.evaluation.predictions import Sample, to_samples
from crm.io.files import replace_file, with_nulls
from crm.report.statistics import (
    Floats,
    Interval,
    brier,
    cluster_interval,
    correctness,
    expected_calibration_error,
    log_loss,
    mean_interval,
)
from crm.schema import Prediction, Result

SCHEMA_VERSION = 2
PACKAGES = ("numpy", "scipy", "pandas", "torch", "transformers", "lightning")


def summarise(
    predictions: Sequence[Prediction], seeds: Sequence[int] = (), config: str = "", commit: str = ""
) -> list[Result]:
    """The metrics of docs/evaluation.md by suite, and ``accuracy_sum`` for every pair of suites X+ and X- (as X)."""
    suites = to_samples(predictions)
    rows = [(suite, metric, found) for suite, samples in suites.items() for metric, found in _metrics(samples).items()]
    for suite, samples in suites.items():
        mirror = suites.get(suite.replace("+", "-", 1))
        if "+" in suite and mirror is not None:
            interval = _accuracy_sum(_labelled(samples), _labelled(mirror))
            rows += [(suite.replace("+", "", 1), "accuracy_sum", interval)] if interval else []
    return [
        Result(suite, metric, i.mean, i.n, i.standard_error, i.low, i.high, tuple(seeds), config, commit)
        for suite, metric, i in rows
    ]


def _labelled(samples: Sequence[Sample]) -> list[Sample]:
    return [sample for sample in samples if sample.label is not None and sample.judged]


def _columns(samples: list[Sample]) -> tuple[Floats, Floats, list[str]]:
    """Logits (N,), labels (N,) and clusters (N,) of labelled samples."""
    labels = np.array([sample.label for sample in samples], dtype=np.float64)
    return np.array([sample.logit for sample in samples]), labels, [sample.cluster for sample in samples]


def _metrics(samples: list[Sample]) -> dict[str, Interval]:
    labelled, both = _labelled(samples), [sample for sample in samples if sample.judged]
    metrics: dict[str, Interval] = {}
    if labelled:
        logits, labels, clusters = _columns(labelled)
        metrics["accuracy"] = cluster_interval(correctness(logits, labels), clusters)
        metrics["log_loss"] = mean_interval(log_loss(logits, labels), clusters)
        metrics["brier"] = mean_interval(brier(logits, labels), clusters)
        metrics["margin"] = mean_interval(logits * (2 * labels - 1), clusters)
        error = expected_calibration_error(logits, labels)
        unknown, groups = math.nan, len(set(clusters))
        metrics["expected_calibration_error"] = Interval(error, unknown, unknown, unknown, len(logits), groups)
    if both:
        keys = [sample.cluster for sample in both]
        ab, ba = (np.array([sample.orders[order] for sample in both]) for order in ("ab", "ba"))
        metrics["flip_rate"] = cluster_interval((np.sign(ab) != np.sign(ba)).astype(float), keys)
        metrics["p_first"] = mean_interval((special.expit(ab) + special.expit(-ba)) / 2, keys)
    metrics["n_ties"] = _count(sum(sample.label is None for sample in samples), len(samples))
    metrics["n_one_order"] = _count(sum(not (row.judged or row.failures) for row in samples), len(samples))
    clusters = [sample.cluster for sample in samples]
    metrics["failure_rate"] = cluster_interval([float(bool(sample.failures)) for sample in samples], clusters)
    known = [sample for sample in samples if sample.tokens == sample.tokens]
    if known:
        metrics["tokens"] = mean_interval([row.tokens for row in known], [row.cluster for row in known])
    return metrics


def _accuracy_sum(plus: list[Sample], minus: list[Sample]) -> Interval | None:
    """acc(+) + acc(-), in [0, 2], of the pairs with a verdict in both suites."""
    mirror = {_pair(sample): sample for sample in minus}
    pairs = [(one, mirror[_pair(one)]) for one in plus if _pair(one) in mirror]
    matched = [row for pair in pairs for row in pair]
    if not matched:
        return None
    half = cluster_interval(correctness(*_columns(matched)[:2]), _columns(matched)[2])
    return Interval(2 * half.mean, 2 * half.standard_error, 2 * half.low, 2 * half.high, half.n, half.clusters)


def _pair(sample: Sample) -> str:
    """A comparison's id without its direction and noise (`crm.data.comparisons`): the pair that was voted on."""
    return re.sub(r"\|(original|reverse)\|\w+$", "", sample.comparison_id)


def _count(value: int, n: int) -> Interval:
    return Interval(float(value), 0.0, float(value), float(value), n, n)


def environment() -> dict[str, str]:
    """Versions of Python and of the packages that decide numbers; read from metadata, so that nothing is imported."""
    versions = {package: metadata.version(package) for package in PACKAGES}
    return {"python": platform.python_version(), **versions, "crm-leaderboard": __version__}


def write_results(folder: Path | str, results: Sequence[Result], run: Mapping[str, Any]) -> Path:
    """Write ``results.json``: a version, those of packages, facts of the ``run`` as given, and the results."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "environment": environment(),
        "run": dict(run),
        "results": with_nulls([asdict(result) for result in results]),
    }
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    return replace_file(Path(folder) / "results.json", text + "\n")


def read_results(path: Path | str) -> tuple[dict[str, Any], list[Result]]:
    """Facts of the run and the results in ``results.json``, as given to `write_results`.

    Raises ``ValueError`` for another file or schema version, ``OSError`` where there is none.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        version, run, rows = (document[name] for name in ("schema_version", "run", "results"))
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path}: not results of evaluate.py ({error!r:.100}); evaluate again") from None
    if version != SCHEMA_VERSION:
        raise ValueError(f"{path}: schema_version: {version!r}, this version reads {SCHEMA_VERSION}; evaluate again")
    known = ({name: math.nan if value is None else value for name, value in row.items()} for row in rows)
    return run, [Result.from_dict(row) for row in known]
