"""Trainings and evaluations that are killed: sound ones join, those that forget where they were are found out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.soak import evaluations, trainings
from bench.soak.children import ChildError, killed_after
from crm.training.checkpointing import is_whole

pytestmark = pytest.mark.slow


@pytest.fixture
def one_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainings, "CASES", {"scalar": ("loss=ranking", "trainer.epochs=2")})


def saved(folder: Path) -> bool:
    """Behind the first checkpoint, of step 3, and before the next."""
    return is_whole(folder / "checkpoints/last.ckpt") and len((folder / "metrics.csv").read_text().splitlines()) > 4


def begun(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


@pytest.mark.usefixtures("one_case")
def test_killed_trainings_join(task: Callable, kill_once: Callable, tried: Callable[..., None]) -> None:
    kill_once(trainings, saved)
    found = trainings.run(task(120))
    assert found.held, found.as_row()
    assert found.tried["kills"] == 2 and found.tried["resumed"] == 2
    tried(faults=found.tried["kills"])


@pytest.mark.usefixtures("one_case")
def test_a_training_that_forgets_its_place_is_found(
    task: Callable, kill_once: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_once(trainings, saved)
    monkeypatch.setattr("crm.model.batching.loader.TrainLoader.load_state_dict", lambda *_: None)
    found = trainings.run(task(120, of=0.01))
    assert not found.held
    assert found.failures["other steps"] or found.failures["other weights"]


def test_killed_evaluations_have_every_id_once(task: Callable, checkpoint: Path, tried: Callable[..., None]) -> None:
    found = evaluations.run(task(60), checkpoint)
    assert found.held, found.as_row()
    assert found.tried["kills"] == 4
    tried(faults=found.tried["kills"])


def test_an_evaluation_that_begins_anew_is_found(
    task: Callable, checkpoint: Path, kill_once: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_once(evaluations, begun)
    monkeypatch.setattr("crm.evaluation.prediction_file.finished", lambda *_: set())
    found = evaluations.run(task(60, of=0.005), checkpoint)
    assert found.failures["an id twice"] and not found.held


def test_a_child_that_fails_by_itself_says_why(tmp_path: Path) -> None:
    with pytest.raises(ChildError, match=r"exit code 1: ZeroDivisionError"):
        killed_after(20.0, tmp_path / "log", divmod, 1, 0)
    assert killed_after(None, tmp_path / "log", divmod, 1, 1) is False
