"""Any number of processes and any strategy is one run: the same numbers, the same weights, the same exported folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L
import pandas as pd
import pytest
import torch
from lightning.pytorch.callbacks import Callback
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from crm.config import compose
from crm.model.export import load_checkpoint
from crm.training.checkpointing import previous
from crm.training.train import TrainingOutcome
from crm.training.train import run_training
from tests.conftest import TINY_MODEL, rounding

pytestmark = pytest.mark.slow

OnRanks = Callable[..., None]
TINY = (
    *TINY_MODEL,
    "head=scalar",
    *("loss=ranking", "loss.ties=soft", "data.train=32", "data.suite=4", "schedule.validate_every=2"),
    *("schedule.epochs=1", "trainer.precision=32-true", "trainer.threads=1", "trainer.progress=false"),
)
# Rates at which rounding stays small: an optimizer that divides by the gradient's size makes noise into steps.
STEADY = ("optimizer.name=adamw", "optimizer.lr=1e-3", "optimizer.warmup_fraction=0", "schedule.save_every=2")


def train(folder: Path, *overrides: str, callbacks: tuple[Callback, ...] = ()) -> TrainingOutcome:
    return run_training(compose("train", [*TINY, "data.validation=9", *overrides], folder), callbacks)


def spread(size: int, strategy: str) -> tuple[str, ...]:
    return (
        f"trainer.devices={size}",
        f"trainer.strategy={strategy}",
        f"schedule.comparisons_per_step={8 // size * size}",
    )


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model to go on from: fresh ones have weights of exactly zero, whose first gradients are all rounding."""
    folder = tmp_path_factory.mktemp("start")
    train(folder, "schedule.comparisons_per_step=8", "schedule.save_every=0", "seed=7")
    return f"model.path={folder / 'model'}"


@pytest.fixture(scope="module")
def alone(start: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    train(folder, start, *STEADY, "schedule.comparisons_per_step=8")
    return folder


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model/model.safetensors")


def assert_trained_alike(one: Path, other: Path, start: str) -> None:
    """Within a twentieth of the way from the start: where a gradient is next to nothing, AdamW's step is rounding."""
    ours, theirs, begun = weights(one), weights(other), weights(Path(start[11:]).parent)
    assert ours.keys() == theirs.keys() == begun.keys()
    for name, expected in theirs.items():
        assert (ours[name] - expected).norm() <= (expected - begun[name]).norm() / 20, name


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_every_strategy_gives_the_run_of_one_process(
    strategy: str, start: str, alone: Path, on_ranks: OnRanks, tmp_path: Path
) -> None:
    on_ranks(2, train, tmp_path, start, *STEADY, *spread(2, strategy))
    told, expected = (json.loads((folder / "summary.json").read_text()) for folder in (tmp_path, alone))
    assert told["steps"] == expected["steps"]
    for number in ("validation_loss", "validation_accuracy"):
        assert told[number] == pytest.approx(expected[number], abs=rounding(expected[number]))
    curves = [pd.read_csv(folder / "metrics.csv") for folder in (tmp_path, alone)]
    for column in ("train/loss", "train/accuracy", "validation/loss", "validation/accuracy"):
        ours, theirs = (frame.dropna(subset=[column]).set_index("step")[column] for frame in curves)
        pd.testing.assert_series_equal(ours, theirs, check_exact=False, atol=rounding(theirs.tolist()), rtol=0)
    assert_trained_alike(tmp_path, alone, start)
    worst, theirs = (pd.read_csv(folder / "worst_pairs.csv").set_index("comparison_id") for folder in (tmp_path, alone))
    assert len(worst) == len(theirs) == expected["counts"]["validation_made"], "each row once, whoever read it"
    for column in ("loss", "p_first"):
        for name, value in theirs[column].items():
            assert worst[column][name] == pytest.approx(value, abs=10 * rounding(value)), name
    files = [sorted(path.name for path in (folder / "model").iterdir()) for folder in (tmp_path, alone)]
    assert files[0] == files[1]
    _, info = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model", output_loading_info=True)
    assert not info["missing_keys"] and not info["mismatched_keys"] and not info["unexpected_keys"]
    load_checkpoint(tmp_path / "model")


class StopAt(Callback):
    """A crash of all processes at an optimizer step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_start(self, trainer: L.Trainer, *_: Any) -> None:
        if trainer.global_step == self.step:
            raise KeyboardInterrupt


class Dropout(Callback):
    """Attention that drops a third of its weights; each rank draws from its own random state."""

    def setup(self, trainer: L.Trainer, pl_module: Any, stage: str) -> None:
        if not trainer.global_step:
            torch.manual_seed(100 + trainer.global_rank)
        for layer in pl_module.model.backbone.layers:
            layer.self_attn.attention_dropout = 0.3


def train_and_stop(folder: Path, step: int, *overrides: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(folder, *overrides, callbacks=(Dropout(), StopAt(step)))


def train_with_dropout(folder: Path, *overrides: str) -> None:
    train(folder, *overrides, callbacks=(Dropout(),))


def test_a_resumed_run_is_the_run_that_was_not_stopped(start: str, on_ranks: OnRanks, tmp_path: Path) -> None:
    settings = (start, *STEADY, *spread(2, "fsdp"), "schedule.epochs=2")
    on_ranks(2, train_with_dropout, tmp_path / "whole", *settings)
    on_ranks(2, train_and_stop, tmp_path / "stopped", 5, *settings)
    last = tmp_path / "stopped/checkpoints/last.ckpt"
    assert last.is_file() and previous(last).is_file()
    last.write_bytes(last.read_bytes()[:-100])  # damaged: the resumed run goes on from the one before
    on_ranks(2, train_with_dropout, tmp_path / "stopped", *settings, "resume=true")
    resumed, whole = (weights(tmp_path / name) for name in ("stopped", "whole"))
    assert resumed.keys() == whole.keys() and all(torch.equal(resumed[name], whole[name]) for name in whole)
    resumed, whole = (pd.read_csv(tmp_path / name / "metrics.csv") for name in ("stopped", "whole"))
    pd.testing.assert_frame_equal(resumed[sorted(resumed)], whole[sorted(whole)], check_exact=True)


def test_a_rank_without_a_validation_row_waits_for_the_others(on_ranks: OnRanks, tmp_path: Path) -> None:
    settings = ("optimizer.name=adamw", "schedule.max_steps=1", "trainer.precision=bf16-mixed", "data.validation=1")
    on_ranks(3, train, tmp_path, *settings, *spread(3, "fsdp"))
    assert json.loads((tmp_path / "summary.json").read_text())["counts"]["validation_made"] == 2, "both directions"


def test_a_pretrained_folder_with_adapters_and_checkpointing_is_sharded(
    start: str, on_ranks: OnRanks, tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    AutoModel.from_pretrained(start[11:]).save_pretrained(plain)
    AutoTokenizer.from_pretrained(start[11:]).save_pretrained(plain)
    settings = (f"model.path={plain}", "model.lora_rank=2", "model.gradient_checkpointing=true", *STEADY)
    on_ranks(2, train, tmp_path / "sharded", *settings, *spread(2, "fsdp"))
    train(tmp_path / "alone", *settings, "schedule.comparisons_per_step=8")
    ours, theirs = (json.loads((tmp_path / name / "summary.json").read_text()) for name in ("sharded", "alone"))
    assert ours["validation_loss"] == pytest.approx(theirs["validation_loss"], abs=rounding(theirs["validation_loss"]))
    assert_trained_alike(tmp_path / "sharded", tmp_path / "alone", start)


def test_muon_is_refused_where_matrices_are_sharded(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"optimizer.name='muon' with trainer.strategy=fsdp: .*use optimizer=paper"):
        train(tmp_path, "trainer.strategy=fsdp", "optimizer.name=muon")


def test_processes_that_the_settings_do_not_count_are_refused(on_ranks: OnRanks, tmp_path: Path) -> None:
    on_ranks(2, _refused, tmp_path)


def _refused(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"trainer.devices=1 on 1 machines: the launcher started 2 processes"):
        train(folder, "trainer.devices=1")
