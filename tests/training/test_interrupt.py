"""Ctrl-C ends a training behind a whole step, and the command that it prints goes on from there."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch.callbacks import Callback
from omegaconf import OmegaConf

from crm.cli.resume import FinishedError, rewrite_resume
from crm.config import compose
from crm.training.config import TrainConfig
from crm.training.train import run_training
from crm.training.run_folder import AnotherRunError, check_unfinished
from tests.conftest import TINY_MODEL

WORDS = (
    *TINY_MODEL,
    *("data.train=24", "data.validation=8", "data.suite=4", "schedule.comparisons_per_step=4", "schedule.epochs=2"),
    *("schedule.save_every=0", "schedule.validate_every=0", "trainer.progress=false", "trainer.precision=32-true"),
)


class CtrlC(Callback):
    """Sends SIGINT to this process in the middle of a step."""

    def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step == 3:
            os.kill(os.getpid(), signal.SIGINT)


def resumed(folder: Path, *more: str) -> TrainConfig:
    words = rewrite_resume([f"resume={folder}", *more])
    config: TrainConfig = compose("train", [word for word in words if not word.startswith("hydra.")], folder)
    return config


@pytest.mark.slow
def test_ctrl_c_saves_the_step_and_names_the_command_that_goes_on(tmp_path: Path) -> None:
    stopped, whole = tmp_path / "stopped", tmp_path / "whole"
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match=f"go on with: python train.py resume={stopped}$"):
        run_training(compose("train", WORDS, stopped), [CtrlC()])
    assert signal.getsignal(signal.SIGINT) == handler
    assert torch.load(stopped / "checkpoints/last.ckpt", weights_only=True)["global_step"] == 4
    outcome = run_training(resumed(stopped))
    assert outcome.steps == run_training(compose("train", WORDS, whole)).steps
    assert (stopped / "metrics.csv").read_text() != "" and outcome.checkpoint.is_dir()
    ours, theirs = (
        torch.load(at / "checkpoints/best.ckpt", weights_only=True)["state_dict"] for at in (stopped, whole)
    )
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-6) for name in theirs)
    with pytest.raises(FinishedError, match=f"has ended; next: python evaluate.py checkpoint={stopped}"):
        rewrite_resume([f"resume={stopped}"])
    with pytest.raises(AnotherRunError, match=r"a finished run is there; .*overwrite=true"):
        check_unfinished(compose("train", WORDS, stopped))
    check_unfinished(compose("train", [*WORDS, "overwrite=true"], stopped))


def test_a_run_goes_on_with_its_own_settings(tmp_path: Path) -> None:
    words = ["head=late", "data=table", "data.path=v.csv", 'data.columns=["prompt=Frage, bitte"]', "seed=7"]
    config = compose("train", [*words, "logger=wandb"], tmp_path)
    config.logger.notes = 'it is ${x} and "so", isn\'t it'
    (tmp_path / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.structured(config)))
    again = resumed(tmp_path)
    assert again.resume and again.run_dir == str(tmp_path)
    again.resume = False
    assert again == config
    assert resumed(tmp_path, "schedule.epochs=9", "trainer.devices=2").trainer.devices == 2


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"it holds no config\.yaml of a run; give the folder of a training run"):
        rewrite_resume([f"resume={tmp_path}"])
    with pytest.raises(ValueError, match="no such folder"):
        rewrite_resume([f"resume={tmp_path / 'nothing'}"])
    assert rewrite_resume(["resume=true", "seed=1"]) == ["resume=true", "seed=1"]
