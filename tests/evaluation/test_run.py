"""`evaluate.py` by its settings: suites that no seed of a run changes, trackers, mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crm.config import compose
from crm.evaluation.run import run_evaluation
from crm.model.export import export_model

SMALL = ("data.train=24", "data.validation=8", "data.suite=6", "progress=false")
NOISED = ("suite.noises=[random]",)


def settings(tmp_path: Path, *words: str) -> Any:
    return compose("evaluate", [*words], tmp_path)


def read(folder: Path, *words: str) -> dict[str, bytes]:
    """Prediction files by name; their folders are digests of judge and comparisons."""
    given = ("judge=length", f"predictions='{folder}'", *SMALL, *words)
    run_evaluation(settings(folder / "run", *given), show=False)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("[!.]*.jsonl")}


def test_no_seed_of_a_run_changes_a_test_set(tmp_path: Path) -> None:
    one, two = (read(tmp_path / f"{seed}", f"seed={seed}", *NOISED) for seed in (1, 2))
    assert one == two and one
    assert one != read(tmp_path / "other", "data.seed=5", *NOISED)


def in_tensorboard(folder: Path) -> dict[str, float]:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    written = accumulator.EventAccumulator(str(folder / "tensorboard")).Reload()
    return {tag: written.Scalars(tag)[0].value for tag in written.Tags()["scalars"] if tag != "hp_metric"}


def test_a_tracker_gets_the_numbers_of_the_files(tmp_path: Path) -> None:
    given = ("judge=length", "logger=tensorboard", f"predictions={tmp_path / 'kept'}", *SMALL)
    results = run_evaluation(settings(tmp_path, *given), show=False)
    finite = {f"{row.suite}/{row.metric}": row.value for row in results if row.value == row.value}
    assert in_tensorboard(tmp_path) == pytest.approx(finite, abs=1e-6) and "D+/accuracy" in finite


def test_attacks_go_into_the_card_of_a_model(make_model: Any, tokenizer: Any, tmp_path: Path) -> None:
    model = tmp_path / "run" / "model"
    export_model(make_model("scalar"), tokenizer, model, {"max_length": 600, "seed": 1})
    given = (f"checkpoint='{model}'", "data=simulation", "suite.names=[D+]", "attacks=4", *SMALL)
    run_evaluation(settings(tmp_path / "out", *given), show=False)
    line = (tmp_path / "out" / "robustness.md").read_text().splitlines()[0]
    assert line.startswith("_n = 4;") and line in (model / "README.md").read_text()
