"""CSV is always there and a resumed run goes on in it; W&B needs no login and no network."""

import csv
import math
import socket
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pandas as pd
import pytest
from lightning.pytorch.loggers import WandbLogger
from lightning.pytorch.utilities import rank_zero_only

from crm.config import compose
from crm.training.config import LoggerConfig
from crm.training.tracking import build_loggers, finished, rows_before, run_loggers, track, wandb_mode
from crm.training.train import run_training
from tests.conftest import TINY_MODEL
from tests.training.test_resume import StopAt


def test_a_resumed_file_keeps_what_came_before_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text("epoch,step,train/loss\n" + "".join(f"0,{step},0.{step}\n" for step in range(5)) + "0,5")
    for rows, kept in ((rows_before(path, 3), ["0.0", "0.1", "0.2"]), ([], [])):
        (logger,) = build_loggers(LoggerConfig(), tmp_path, "n", "g", {}, rows)
        logger.log_metrics({"validation/loss": 0.5, "epoch": 0}, step=3)
        with path.open(newline="") as file:
            found = list(csv.DictReader(file))
        assert [row["train/loss"] for row in found[:-1]] == kept
        assert (found[-1]["step"], found[-1]["validation/loss"]) == ("3", "0.5"), "in the file as soon as it is logged"
    assert rows_before(tmp_path / "none.csv", 3) == []


def test_a_resumed_run_goes_on_in_wandb_and_a_new_one_in_its_folder_does_not(tmp_path: Path, monkeypatch: Any) -> None:
    made = Mock(return_value=Mock(spec=WandbLogger))
    monkeypatch.setattr("lightning.pytorch.loggers.WandbLogger", made)
    settings, row = LoggerConfig(kinds=["wandb"]), {"step": "1", "train/loss": "0.5"}
    for rank, rows in ((0, []), (1, []), (0, [row]), (0, [])):
        monkeypatch.setattr(rank_zero_only, "rank", rank)
        build_loggers(settings, tmp_path, "name", "group", {}, rows)
    first, _, resumed, new = (call.kwargs["id"] for call in made.call_args_list)
    assert first == resumed != new


def test_a_run_is_named_after_what_was_typed_and_its_group_has_all_seeds(tmp_path: Path, monkeypatch: Any) -> None:
    made = Mock()
    monkeypatch.setattr("crm.training.tracking.build_loggers", made)
    words = ["loss=cls", "head=pairwise_span", "optimizer.lr=0.01", "seed=3", "noise=add", "logger.project=x"]
    config = compose("train", words, tmp_path)
    run_loggers(config, {}, None)
    (tmp_path / ".hydra").mkdir()
    (tmp_path / ".hydra/overrides.yaml").write_text("".join(f"- {word}\n" for word in words))
    run_loggers(config, {}, None)
    bare, typed = (call.args[2:4] for call in made.call_args_list)
    assert bare == ("tiny pairwise_span simulation seed 3", "tiny pairwise_span simulation")
    group = "tiny pairwise_span simulation optimizer.lr=0.01 noise=add"
    assert typed == (f"{group} seed 3", group)


def test_a_run_that_fails_is_a_failed_one_in_wandb_and_only_finite_numbers_are_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger, finish = Mock(spec=WandbLogger), Mock()
    monkeypatch.setattr("crm.training.tracking.build_loggers", lambda *_: [Mock(), logger])
    monkeypatch.setattr("wandb.finish", finish)
    numbers = {"D+/accuracy": 0.5, "D-/accuracy": math.nan, "D-/margin": math.inf}
    track(LoggerConfig(kinds=["wandb"]), tmp_path, name="n", group="g", config={}, numbers=numbers)
    logger.log_metrics.assert_called_once_with({"D+/accuracy": 0.5}, 0)
    with pytest.raises(RuntimeError), finished([logger]):
        raise RuntimeError
    assert [call.args for call in logger.finalize.call_args_list] == [("success",), ("failed",)]
    assert [call.kwargs for call in finish.call_args_list] == [{"exit_code": 0}, {"exit_code": 1}]


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


@pytest.mark.slow
def test_every_tracker_has_the_run(offline: None, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    import wandb

    words = [
        *(*TINY_MODEL, "schedule.comparisons_per_step=8", "data.train=16", "data.validation=24", "data.suite=4"),
        *("schedule.epochs=3", "schedule.save_every=1", "schedule.validate_every=1", "trainer.progress=false"),
        "logger.kinds=[csv,wandb,tensorboard]",
    ]
    with pytest.raises(RuntimeError, match="crashed"):
        run_training(compose("train", words, tmp_path), [StopAt(3)])
    assert wandb.run is None, "the next job of a sweep would write into this run"
    run_training(compose("train", [*words, "resume=true"], tmp_path))
    assert wandb.run is None
    _, after = sorted((tmp_path / "wandb").glob("offline-run-*"), key=lambda path: path.stat().st_mtime_ns)

    file = next(after.glob("*.wandb"))
    for _ in range(100):  # W&B's own process writes it, on a busy machine some time after the run has ended
        if b"best/accuracy" in file.read_bytes():
            break
        time.sleep(0.2)
    content = file.read_bytes()
    assert b'"hidden_size": 16' in content or b'"hidden_size":16' in content, "the config is not a plain dict"
    for text in (b"tiny scalar simulation seed 42", b"train/gradient_norm", b"best/accuracy"):
        assert text in content
    steps = pd.read_csv(tmp_path / "metrics.csv").dropna(subset=["train/loss"])["step"].tolist()
    assert steps == list(range(6)), "those before the resume too"

    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    written = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert {"train/gradient_norm", "validation/accuracy_original"} <= set(written.Tags()["scalars"])


@pytest.mark.parametrize(
    ("variable", "key", "expected"),
    [("offline", "k", "offline"), ("dryrun", "k", "offline"), ("", "k", "online"), ("", "", "offline")],
)
def test_wandb_is_online_where_it_is_asked_to_be_or_a_key_is_at_hand(
    offline: None, monkeypatch: pytest.MonkeyPatch, variable: str, key: str, expected: str
) -> None:
    monkeypatch.setenv("WANDB_MODE", variable)
    monkeypatch.setenv("WANDB_API_KEY", key)
    assert wandb_mode() == expected
