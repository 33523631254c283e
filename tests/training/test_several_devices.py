"""Any number of processes and any strategy is one run: the same numbers, the same weights, the same exported folder."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy
from safetensors.torch import load_file
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.utils import get_total_norm
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from crm.config import compose
from crm.model.export import export_model
from crm.model.reward_model import RewardModel
from crm.training.config import OptimizerConfig
from crm.training.devices import build_strategy, gather, shard
from crm.training.lit_module import LitRewardModel
from crm.training.loss import LossConfig
from crm.training.resume import AnotherRunError
from crm.training.train import TrainingOutcome, run_training
from tests.conftest import TINY_MODEL, rounding
from tests.training.test_resume import CtrlC, StopAt

OnRanks = Callable[..., None]
TINY = (
    *(*TINY_MODEL, "head=scalar", "loss=ranking", "loss.ties=soft", "data.train=32", "data.suite=4"),
    *("data.validation=9", "schedule.validate_every=2", "schedule.epochs=1", "schedule.save_every=2"),
    *("trainer.precision=32-true", "trainer.threads=1", "trainer.progress=false"),
    # Rates at which rounding stays small: an optimizer that divides by the gradient's size makes noise into steps.
    *("optimizer.name=adamw", "optimizer.lr=1e-3", "optimizer.warmup_fraction=0", "schedule.comparisons_per_step=8"),
)


def train(folder: Path, *overrides: str, callbacks: tuple[Callback, ...] = ()) -> TrainingOutcome:
    return run_training(compose("train", [*TINY, *overrides], folder), callbacks)


def spread(strategy: str, size: int = 2) -> tuple[str, ...]:
    each = 8 // size * size
    return (f"trainer.devices={size}", f"trainer.strategy={strategy}", f"schedule.comparisons_per_step={each}")


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model to go on from: fresh ones have weights of exactly zero, whose first gradients are all rounding."""
    folder = tmp_path_factory.mktemp("start")
    train(folder, "schedule.save_every=0", "seed=7", "optimizer.lr=2e-3")
    return f"model.path={folder / 'model'}"


@pytest.fixture(scope="module")
def alone(start: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    train(folder, start)
    return folder


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model/model.safetensors")


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return found


def assert_trained_alike(one: Path, other: Path, start: str) -> None:
    """Within a twentieth of the way from the start: where a gradient is next to nothing, AdamW's step is rounding."""
    ours, theirs, begun = weights(one), weights(other), weights(Path(start[11:]).parent)
    assert ours.keys() == theirs.keys() == begun.keys()
    for name, expected in theirs.items():
        assert (ours[name] - expected).norm() <= (expected - begun[name]).norm() / 20, name


def crash(folder: Path, *overrides: str) -> None:
    with pytest.raises(RuntimeError, match="crashed"):
        train(folder, *overrides, callbacks=(StopAt(3),))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_every_strategy_gives_the_run_of_one_process(
    strategy: str, start: str, alone: Path, on_ranks: OnRanks, tmp_path: Path
) -> None:
    """With FSDP2 one that crashed with two processes and went on with four."""
    if strategy == "fsdp":
        on_ranks(2, crash, tmp_path, start, *spread("fsdp"), "batching.tokens=2000")
        on_ranks(4, train, tmp_path, start, *spread("fsdp", 4), "batching.tokens=1000", "resume=true")
    else:
        on_ranks(2, train, tmp_path, start, *spread("ddp"))
    ours, theirs = summary(tmp_path), summary(alone)
    assert ours["steps"] == theirs["steps"] == 4
    speed = ours["throughput"]
    assert speed["comparisons_per_second"] / speed["steps_per_second"] == pytest.approx(8), "those of both ranks"
    for name in ("validation_loss", "validation_accuracy"):
        assert ours[name] == pytest.approx(theirs[name], abs=rounding(theirs[name]))
    tables = [pd.read_csv(folder / "metrics.csv") for folder in (tmp_path, alone)]
    for column in ("train/loss", "validation/loss", "validation/accuracy"):
        one, other = (frame.dropna(subset=[column]).set_index("step")[column] for frame in tables)
        pd.testing.assert_series_equal(one, other, atol=1e-5, rtol=0)
    assert_trained_alike(tmp_path, alone, start)
    files = [sorted(path.name for path in (folder / "model").iterdir()) for folder in (tmp_path, alone)]
    assert files[0] == files[1]
    _, info = AutoModelForSequenceClassification.from_pretrained(tmp_path / "model", output_loading_info=True)
    assert not info["missing_keys"] and not info["mismatched_keys"] and not info["unexpected_keys"]


def refused(folder: Path, *overrides: str) -> None:
    with pytest.raises(AnotherRunError, match=r"trainer.strategy was 'ddp', now 'fsdp'"):
        train(folder, *overrides, "resume=true")


@pytest.mark.slow
def test_shards_do_not_take_over_an_optimizer_in_another_order(on_ranks: OnRanks, tmp_path: Path) -> None:
    crash(tmp_path)
    on_ranks(2, refused, tmp_path, *spread("fsdp"))


def terminated(folder: Path, *overrides: str) -> None:
    """SIGTERM to the second process alone, twice, as clusters do."""
    callbacks = (CtrlC(2, signal.SIGTERM), CtrlC(2, signal.SIGTERM)) if os.environ["RANK"] == "1" else ()
    with pytest.raises(KeyboardInterrupt, match=r"go on with: python train\.py resume="):
        train(folder, *overrides, callbacks=callbacks)


@pytest.mark.slow
def test_sigterm_to_one_process_saves_and_stops_all(on_ranks: OnRanks, tmp_path: Path) -> None:
    on_ranks(2, terminated, tmp_path, *spread("ddp"))
    assert torch.load(tmp_path / "checkpoints/last.ckpt", weights_only=True)["global_step"] == 3


class Passes(Callback):
    """Counts forward passes of training."""

    passes = 0

    def on_train_batch_end(self, *_: Any) -> None:
        self.passes += 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batching", "one", "many"), [("tree", "tokens=100000", "tokens=400"), ("padded", "tokens=100000", "tokens=1")]
)
def test_a_step_in_one_pass_is_that_step_in_many(
    batching: str, one: str, many: str, start: str, tmp_path: Path
) -> None:
    """The same eight rows, in one pass or in several of unequal size: the same curve, the same weights."""
    passes, losses = [], []
    for size in (one, many):
        count, words = Passes(), (start, "data.train=8", "schedule.epochs=4", f"batching={batching}")
        run = train(tmp_path / size, *words, f"batching.{size}", callbacks=(count,))
        passes.append(count.passes / run.steps)
        losses.append(pd.read_csv(tmp_path / size / "metrics.csv")["train/loss"].dropna().tolist())
    assert passes[0] == 1 < passes[1] and len(losses[0]) == run.steps == 4
    assert losses[1] == pytest.approx(losses[0], abs=1e-5)
    assert_trained_alike(tmp_path / many, tmp_path / one, start)


@pytest.mark.slow
def test_no_rank_waits_for_another_s_last_batch(on_ranks: OnRanks, tmp_path: Path) -> None:
    """One row in the last step of three processes, and two rows to validate on."""
    settings = ("data.train=7", "trainer.precision=bf16-mixed", "data.validation=1")
    on_ranks(3, train, tmp_path, *settings, *spread("fsdp", 3))
    found = summary(tmp_path)
    assert (found["steps"], found["counts"]["trained_on"], found["counts"]["validation_made"]) == (2, 7, 2)


def total_norm(shards: list[Any]) -> float:
    return float(get_total_norm(shards).full_tensor())


def clip_and_export(model: RewardModel, tokenizer: Any, folder: Path) -> None:
    """On each rank: shard, clip gradients of thrice the weights to norm 1, gather, export."""
    torch.distributed.init_process_group("gloo")
    lit, size = LitRewardModel(model, OptimizerConfig(), LossConfig(), 1), torch.distributed.get_world_size()
    skeleton = shard(model, init_device_mesh("cpu", (size,)), torch.device("cpu"), torch.float32)
    for weight in model.parameters():
        weight.grad = 3 * weight.detach()
    norm = total_norm(list(model.parameters()))
    assert total_norm([weight.grad for weight in model.parameters()]) == pytest.approx(3 * norm)
    lit.log = lambda *_: None
    lit.on_before_optimizer_step(torch.optim.SGD(model.parameters()))
    for weight in model.parameters():
        torch.testing.assert_close(weight.grad.full_tensor(), weight.detach().full_tensor() / norm, rtol=1e-5, atol=0)
    whole = gather(model, skeleton)
    if torch.distributed.get_rank() == 0:
        export_model(whole, tokenizer, folder, {})


@pytest.mark.slow
def test_four_shards_clip_by_the_whole_norm_and_export_the_same_bits(
    make_model: Any, tokenizer: Any, on_ranks: OnRanks, tmp_path: Path
) -> None:
    export_model(make_model("scalar"), tokenizer, tmp_path / "whole", {})
    on_ranks(4, clip_and_export, make_model("scalar"), tokenizer, tmp_path / "gathered")
    files = {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir()}
    assert {path.name: path.read_bytes() for path in (tmp_path / "gathered").iterdir()} == files


@pytest.mark.slow
def test_a_pretrained_folder_with_adapters_and_checkpointing_is_sharded(
    start: str, on_ranks: OnRanks, tmp_path: Path
) -> None:
    plain = tmp_path / "plain"
    AutoModel.from_pretrained(start[11:]).save_pretrained(plain)
    AutoTokenizer.from_pretrained(start[11:]).save_pretrained(plain)
    settings = (f"model.path={plain}", "model.lora_rank=2", "model.gradient_checkpointing=true")
    on_ranks(2, train, tmp_path / "sharded", *settings, *spread("fsdp"))
    train(tmp_path / "alone", *settings)
    losses = [summary(tmp_path / name)["validation_loss"] for name in ("sharded", "alone")]
    assert losses[0] == pytest.approx(losses[1], abs=rounding(losses[1]))
    assert_trained_alike(tmp_path / "sharded", tmp_path / "alone", start)


def test_a_launcher_with_another_number_of_processes_is_an_error(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("crm.io.processes.launched_processes", lambda: (2, 1))
    with pytest.raises(ValueError, match=r"devices=1 nodes=\w+: the launcher started 2 processes"):
        train(tmp_path, "trainer.devices=1")


def test_the_strategy_that_a_setting_names_is_built() -> None:
    assert build_strategy("auto", 1) == "auto"
    assert isinstance(build_strategy("auto", 2), DDPStrategy) and isinstance(build_strategy("ddp", 1), DDPStrategy)
    assert isinstance(build_strategy("fsdp", 8), ModelParallelStrategy)
