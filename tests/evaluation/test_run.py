"""`evaluate.py` by its settings: suites that no seed of a run changes, and devices that are said once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crm.config import compose
from crm.dataset.noise import CriteriaPool
from crm.dataset.suites import draw_suite, fixed_suites
from crm.evaluation.run import comparisons_of, run_evaluation
from crm.io.parquet import write_parquet
from crm.schema import Comparison, Preference
from crm.votes.own import dataset
from crm.votes.simulation.arena import simulate

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
    for name in ("train", "validation", *dataset.SUITES):
        write_parquet(tmp_path / f"data/splits/{name}.parquet", Preference, parts[name])
    rows, _ = draw_suite("D-_random", splits.suites, CriteriaPool.from_preferences(splits.train), seed=7)
    write_parquet(tmp_path / "data/suites/D-_random.parquet", Comparison, rows)
    return tmp_path / "data"


def test_the_suites_of_a_dataset_are_those_that_were_written(folder: Path, tmp_path: Path) -> None:
    given = ("judge=length", "data=dataset", f"data.path='{folder}'", "suite.names=[D-_random,D+_random]")
    splits = dataset.load(folder)
    found = comparisons_of(["D-_random", "D+_random"], splits, settings(tmp_path, *given))
    assert found["D-_random"] == dataset.suite(folder, "D-_random")
    assert found["D-_random"] != fixed_suites(["D-_random"], splits)["D-_random"][0], "drawn anew it would be another"
    assert found["D+_random"] == fixed_suites(["D+_random"], splits)["D+_random"][0]


@pytest.mark.parametrize(
    ("words", "devices", "precision", "threads", "strategy"),
    [
        ((), 1, "32-true", 0, "auto"),
        (("devices=2", "precision=bf16-mixed", "threads=3"), 2, "bf16-mixed", 3, "auto"),
        (("trainer.devices=2", "trainer.precision=bf16-mixed"), 2, "bf16-mixed", 0, "auto"),
        (("trainer=ddp", "trainer.devices=2", "trainer.precision=bf16-mixed"), 2, "bf16-mixed", 0, "ddp"),
        (("trainer=fsdp", "devices=4", "precision=bf16-mixed"), 4, "bf16-mixed", 0, "fsdp"),
    ],
)
def test_devices_and_precision_are_said_once(
    words: tuple[str, ...], devices: int, precision: str, threads: int, strategy: str, tmp_path: Path
) -> None:
    config = settings(tmp_path, "checkpoint=x", *words)
    for place in (config, config.trainer):
        assert (place.devices, place.nodes, place.precision, place.threads) == (devices, 1, precision, threads)
    assert config.trainer.strategy == strategy


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("trainer.devices=4", "devices=2"), r"devices=2 and trainer.devices=4: they are one setting"),
        (("trainer.nodes=2", "nodes=3"), r"nodes=3 and trainer.nodes=2: they are one setting; leave out nodes=3"),
        (("trainer.compile=true",), r"trainer.compile=True: expected false"),
        (("trainer.devices=0",), r"trainer.devices=0: expected 1 or more"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said):
        settings(tmp_path, "checkpoint=x", *words)


def test_the_precision_of_the_device_is_settled_before_anything_is_read(tmp_path: Path) -> None:
    config = settings(tmp_path, "judge=length", "trainer=cpu", *SMALL, f"predictions='{tmp_path}/kept'")
    assert config.trainer.precision == "auto"
    run_evaluation(config, show=False)
    assert config.precision == config.trainer.precision in ("32-true", "bf16-mixed")
