"""`logger=` of evaluation and leaderboard: a tracker gets the numbers that the files have."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from crm.config import compose
from crm.evaluation.run import run_evaluation
from crm.leaderboard.run import run_leaderboard

SMALL = ["data.train=20", "data.validation=20", "data.suite=20", "progress=false"]


def in_tensorboard(folder: Path) -> dict[str, float]:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    written = accumulator.EventAccumulator(str(folder / "tensorboard")).Reload()
    return {tag: written.Tensors(tag)[0].tensor_proto.float_val[0] for tag in written.Tags()["tensors"]}


def test_an_evaluation_in_tensorboard(tmp_path: Path) -> None:
    settings = ["judge=length", "logger=tensorboard", f"predictions={tmp_path / 'kept'}", *SMALL]
    results = run_evaluation(compose("evaluate", settings, tmp_path), show=False)
    finite = {f"{row.suite}/{row.metric}": row.value for row in results if row.value == row.value}
    assert in_tensorboard(tmp_path) == pytest.approx(finite, abs=1e-6) and "D+/accuracy" in finite


def test_a_leaderboard_in_tensorboard(tmp_path: Path) -> None:
    settings = ["judge=length", "logger=tensorboard", "bank.queries=12", f"predictions={tmp_path / 'kept'}"]
    board = run_leaderboard(compose("leaderboard", [*settings, "progress=false"], tmp_path), show=False)
    rates = {f"win_rate/{model}": rate for model, rate in board.win_rates().items()}
    assert in_tensorboard(tmp_path) == pytest.approx(rates, abs=1e-6) and len(rates) == 13


@pytest.mark.slow
def test_an_evaluation_in_wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    settings = ["judge=length", "logger=wandb", "logger.group=controls", f"predictions={tmp_path / 'kept'}", *SMALL]
    run_evaluation(compose("evaluate", settings, tmp_path), show=False)
    (file,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    words = (b"D+/accuracy", b"longer wins on simulation", b"controls")
    for _ in range(100):  # by a process of its own, some time after the run has ended
        if all(word in file.read_bytes() for word in words):
            break
        time.sleep(0.2)
    assert [word for word in words if word not in file.read_bytes()] == []
    assert list(file.parent.rglob("media/table/suites*.json"))


@pytest.mark.parametrize("command", ["evaluate", "leaderboard"])
def test_by_default_nothing_is_tracked_and_another_logger_is_refused(command: str, tmp_path: Path) -> None:
    assert compose(command, ["judge=length"], tmp_path).logger.kinds == ["csv"]
    with pytest.raises(ValueError, match=r"logger\.kinds='paper': expected one of csv, wandb, tensorboard"):
        compose(command, ["judge=length", "logger.kinds=[paper]"], tmp_path)
