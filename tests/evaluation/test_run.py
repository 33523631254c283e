"""`evaluate.py` by its settings: suites that no seed of a run changes, trackers, mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crm.config import compose
from crm.data.comparisons import draw_suite, fixed_suites
from crm.data.noise import CriteriaPool
from crm.data.own import load_prepared, prepared_suite
from crm.data.simulation.arena import simulate
from crm.evaluation.run import comparisons_of, run_evaluation
from crm.io.parquet import write_parquet
from crm.model.export import export_model
from crm.schema import Comparison, Preference

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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A prepared dataset: its parts, and one noised suite drawn with a seed of its own."""
    splits = simulate(seed=1, train=24, validation=8, suite=6)
    parts = {"train": splits.train, "validation": splits.validation, **splits.suites}
    for name in ("train", "validation", *"DTC"):
        write_parquet(tmp_path / f"data/splits/{name}.parquet", Preference, parts[name])
    rows, _ = draw_suite("D-_random", splits.suites, CriteriaPool.from_preferences(splits.train), seed=7)
    write_parquet(tmp_path / "data/suites/D-_random.parquet", Comparison, rows)
    return tmp_path / "data"


def test_the_suites_of_a_dataset_are_those_that_were_written(folder: Path, tmp_path: Path) -> None:
    given = ("judge=length", "data=dataset", f"data.path='{folder}'", "suite.names=[D-_random,D+_random]")
    splits = load_prepared(folder)
    found = comparisons_of(["D-_random", "D+_random"], splits, settings(tmp_path, *given))
    assert found["D-_random"] == prepared_suite(folder, "D-_random")
    assert found["D-_random"] != fixed_suites(["D-_random"], splits)["D-_random"][0], "drawn anew it would be another"
    assert found["D+_random"] == fixed_suites(["D+_random"], splits)["D+_random"][0]


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
