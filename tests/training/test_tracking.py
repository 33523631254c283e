"""CSV is always there and survives a resume; W&B needs no login and no network, and each job gets a run of its own."""

from __future__ import annotations

import csv
import json
import socket
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from lightning.pytorch.callbacks import Callback

from crm.config import compose
from crm.training.config import LoggerConfig
from crm.training.train import run_training
from crm.training.tracking import CsvLogger, build_loggers, finished, log_artifact, log_summary
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
    job = tmp_path / "job"
    run_training(compose("train", [*TINY, "logger=wandb", "schedule.validate_every=1"], job))
    written = list((job / "wandb").glob("offline-run-*"))
    assert len(written) == 1
    content = once_written(next(written[0].glob("*.wandb")), b"best/accuracy")
    assert b'"hidden_size": 16' in content or b'"hidden_size":16' in content, "the config is not a plain dict"
    assert b"best/accuracy" in content
    assert b"tiny scalar simulation seed 42" in content and b"tiny scalar ranking" in content
    assert b"validation/margins" in content and b"histogram" in content
    assert b"train/gradient_norm" in content and b"tokens_seen" in content
    assert list(written[0].rglob("media/table/worst_pairs*.json"))
    assert rows(job / "metrics.csv")
    import wandb

    assert wandb.run is None, "the next job of a sweep would write into this run"


@pytest.mark.slow
def test_a_resumed_run_is_one_wandb_run_with_every_step_once(offline: None, tmp_path: Path) -> None:
    words = [*TINY, "logger=wandb", "schedule.save_every=1", "schedule.epochs=3"]

    class Interrupt(Callback):
        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if trainer.global_step == 3:
                raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        run_training(compose("train", words, tmp_path), [Interrupt()])
    (before,) = (tmp_path / "wandb").glob("offline-run-*")
    run_training(compose("train", [*words, "resume=true"], tmp_path))
    (after,) = (tmp_path / "wandb").glob("offline-run-*")
    assert before.name[-8:] == after.name[-8:], "the same id"
    once_written(next(after.glob("*.wandb")), b"best/accuracy")
    logged = losses_logged(next(after.glob("*.wandb")))
    steps = [int(row["step"]) for row in rows(tmp_path / "metrics.csv") if row["train/loss"]]
    assert [step for step, _ in logged] == steps == sorted(set(steps)) and len(steps) > 3


def losses_logged(file: Path) -> list[tuple[int, float]]:
    """Steps and training losses that W&B has on disk, in the order in which they were logged.

    The file is LevelDB's log: blocks of 32 KiB, each record with 7 bytes of header (checksum, length, kind).
    """
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, parts, found = file.read_bytes(), 7, b"", []
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        parts, at = parts + data[at + 7 : at + 7 + length], at + 7 + length
        if kind in (2, 3):  # goes on in the next block
            continue
        record, parts = Record.FromString(parts), b""
        row = {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        if "train/loss" in row:
            found.append((int(row["trainer/global_step"]), float(row["train/loss"])))
    return found


@pytest.mark.slow
def test_a_failing_job_ends_its_run_as_failed(offline: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wandb

    codes = []
    finish = wandb.finish
    monkeypatch.setattr(wandb, "finish", lambda exit_code: codes.append(exit_code) or finish(exit_code=exit_code))
    for fails in (True, False):
        folder = tmp_path / str(fails)
        settings = LoggerConfig(kinds=["wandb"], project="p")
        loggers = build_loggers(settings, folder, name="one", group="all", config={"seed": {"a": 1}})
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
        build_loggers(LoggerConfig(kinds=["tensorboard"]), tmp_path, name="n", group="g", config={})
