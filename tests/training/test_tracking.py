"""CSV is always there and survives a resume; W&B needs no login and no network, and each job gets a run of its own."""

from __future__ import annotations

import csv
import socket
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from crm.config import compose
from crm.training.run import run_training
from crm.training.tracking import CsvLogger, build_loggers, finished, log_artifact, log_summary, wandb_logged_in
from tests.conftest import TINY_MODEL

TINY = [
    *TINY_MODEL,
    "schedule.comparisons_per_step=8",
    *("data.train=16", "data.validation=24", "data.suite=4", "schedule.epochs=1", "trainer.progress=false"),
]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_rows_are_in_the_file_as_soon_as_they_are_logged(tmp_path: Path) -> None:
    logger = CsvLogger(tmp_path / "metrics.csv", resume=False)
    logger.log_metrics({"train/loss": 0.1, "epoch": 0}, step=0)
    assert rows(tmp_path / "metrics.csv") == [{"epoch": "0", "step": "0", "train/loss": "0.1"}]
    logger.log_metrics({"validation/loss": 0.2}, step=1)
    assert rows(tmp_path / "metrics.csv")[1] == {
        "epoch": "",
        "step": "1",
        "train/loss": "",
        "validation/loss": "0.2",
    }


@pytest.mark.parametrize("tail", ["", "0,5,0.5", "0,5,0."], ids=["whole", "no line break", "cut"])
def test_a_resumed_file_keeps_what_came_before_the_checkpoint(tail: str, tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("epoch,step,train/loss\n" + "".join(f"0,{step},0.{step}\n" for step in range(5)) + tail)
    logger = CsvLogger(path, resume=True)
    logger.log_metrics({"train/loss": 9.0}, step=3)
    logger.log_metrics({"train/loss": 8.0}, step=4)
    assert [(row["step"], row["train/loss"]) for row in rows(path)] == [
        *[("0", "0.0"), ("1", "0.1"), ("2", "0.2")],
        *[("3", "9.0"), ("4", "8.0")],
    ]


def test_a_new_run_does_not_keep_an_old_file(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("epoch,step,old\n0,0,1\n")
    CsvLogger(tmp_path / "metrics.csv", resume=False).log_metrics({"new": 1.0}, step=0)
    assert [set(row) for row in rows(tmp_path / "metrics.csv")] == [{"epoch", "step", "new"}]


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No login anywhere, no prompt, and any connection to another machine fails the test."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NETRC", str(tmp_path / "nothing"))
    for name in ("WANDB_API_KEY", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("asked for something"))
    connect = socket.socket.connect

    def local_only(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX and str(address[0]) not in ("127.0.0.1", "::1", "localhost"):
            pytest.fail(f"connected to {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", local_only)


def once_written(path: Path, wanted: bytes) -> bytes:
    """W&B's own process writes the file, on a busy machine some time after the run has ended; 20 s at most."""
    for _ in range(100):
        if wanted in path.read_bytes():
            break
        time.sleep(0.2)
    return path.read_bytes()


@pytest.mark.slow
def test_wandb_without_login_runs_offline_once_a_job_with_config_and_table(offline: None, tmp_path: Path) -> None:
    assert not wandb_logged_in()
    job = tmp_path / "job"
    run_training(compose("train", [*TINY, "logger=wandb", "schedule.validate_every=1"], job))
    written = list((job / "wandb").glob("offline-run-*"))
    assert len(written) == 1
    content = once_written(next(written[0].glob("*.wandb")), b"best/accuracy")
    assert b'"hidden_size": 16' in content or b'"hidden_size":16' in content, "the config is not a plain dict"
    assert b"best/accuracy" in content
    assert b"tiny pairwise cls seed 42" in content and b"tiny pairwise cls" in content.replace(b"cls seed", b"")
    assert b"validation/margins" in content and b"histogram" in content
    assert b"train/gradient_norm" in content and b"tokens_seen" in content
    assert list(written[0].rglob("media/table/worst_pairs*.json"))
    assert rows(job / "metrics.csv")
    import wandb

    assert wandb.run is None, "the next job of a sweep would write into this run"


@pytest.mark.slow
def test_a_failing_job_ends_its_run_as_failed(offline: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wandb

    codes = []
    finish = wandb.finish
    monkeypatch.setattr(wandb, "finish", lambda exit_code: codes.append(exit_code) or finish(exit_code=exit_code))
    for fails in (True, False):
        folder = tmp_path / str(fails)
        loggers = build_loggers("wandb", folder, project="p", name=None, config={"seed": {"a": 1}})
        if fails:
            with pytest.raises(RuntimeError, match="broken"), finished(loggers):
                raise RuntimeError("broken")
        else:
            with finished(loggers):
                log_summary(loggers, {"best/loss": 0.5}, {"worst": pd.DataFrame({"a": [1]})})
                log_artifact(loggers, "results", [folder / "not there, not read offline"])
        assert len(list((folder / "wandb").glob("offline-run-*"))) == 1
        assert wandb.run is None
    assert codes == [1, 0]


@pytest.mark.slow
def test_tensorboard_writes_where_it_is_installed(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    run_training(compose("train", [*TINY, "logger=tensorboard", "schedule.validate_every=1"], tmp_path))
    (events,) = (tmp_path / "tensorboard").rglob("events.out.tfevents.*")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    written = EventAccumulator(str(events), size_guidance={"histograms": 0}).Reload()
    assert {"train/gradient_norm", "tokens_seen", "validation/accuracy_original"} <= set(written.Tags()["scalars"])
    margins = written.Histograms("validation/margins")[-1].histogram_value
    assert margins.num == sum(margins.bucket) > 10


def test_tensorboard_that_is_missing_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any, **__: Any) -> None:
        raise ModuleNotFoundError("No module named 'tensorboard'")

    monkeypatch.setattr("lightning.pytorch.loggers.TensorBoardLogger", missing)
    with pytest.raises(ValueError, match=r"logger=tensorboard: pip install .*or use logger=csv"):
        build_loggers("tensorboard", tmp_path, project="p", name=None, config={})
