"""A run that was stopped and resumed is the run that was never stopped: same rows, same curves, same weights."""

import multiprocessing
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from lightning.pytorch.callbacks import Callback
from omegaconf import OmegaConf

from crm.cli.words import FinishedError, rewrite_resume
from crm.config import compose
from crm.model.batching.plans import Packing
from crm.model.export import load_checkpoint
from crm.training.config import TrainConfig
from crm.training.resume import AnotherRunError, check_unfinished, finished_before
from crm.training.train import TrainingOutcome, run_training
from tests.conftest import TINY_MODEL

TINY = (
    *(*TINY_MODEL, "loss=ranking", "data.train=24", "data.validation=8", "data.suite=4", "schedule.epochs=2"),
    *("schedule.comparisons_per_step=4", "trainer.precision=32-true", "trainer.progress=false", "trainer.threads=1"),
    # Several passes a step, noise that is drawn anew, a rate that rises and falls: all that can be lost.
    *("schedule.save_every=2", "schedule.validate_every=3", "schedule.patience=30", "batching.tokens=300"),
    *("noise=random", "optimizer.warmup_fraction=0.6"),
)
FORK = multiprocessing.get_context("fork")
"""torch is imported already, so that a killed run costs its steps and not its imports."""


class Read(Callback):
    """Notes which votes every batch was of, by epoch and batch, and how many batches were read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.votes: dict[tuple[int, int], list[str]] = {}
        self.batches = 0
        self._names: dict[bytes, list[str]] = {}
        collate = Packing.collate

        def noted(packing: Packing, rows: Any, weight: float = 1.0) -> Any:
            batch = collate(packing, rows, weight)
            self._names[batch.input_ids.numpy().tobytes()] = [row.comparison.preference_id for row in rows]
            return batch

        monkeypatch.setattr(Packing, "collate", noted)

    def on_train_batch_end(self, trainer: Any, _module: Any, _outputs: Any, batch: Any, batch_idx: int) -> None:
        self.batches += 1
        names = self._names[batch.input_ids.numpy().tobytes()]
        self.votes[trainer.current_epoch, batch_idx] = names if batch.weight else []  # a filler repeats a row


class StopAt(Callback):
    """A crash at an optimizer step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step == self.step:
            raise RuntimeError("crashed")


class CtrlC(StopAt):
    """A signal amid an optimizer step."""

    def __init__(self, step: int, kind: int = signal.SIGINT) -> None:
        super().__init__(step)
        self.kind = kind

    def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
        if trainer.global_step == self.step:
            self.step = -1  # once, though a step has several batches
            os.kill(os.getpid(), self.kind)


def train(run_dir: Path, *overrides: str, callbacks: tuple[Callback, ...] = ()) -> TrainingOutcome:
    return run_training(compose("train", [*TINY, *overrides], run_dir), callbacks)


def resumed(folder: Path, *more: str) -> TrainConfig:
    """What ``python train.py resume=<folder>`` composes."""
    words = rewrite_resume([f"resume={folder}", *more])
    config: TrainConfig = compose("train", [word for word in words if not word.startswith("hydra.")], folder)
    return config


def curves(run_dir: Path) -> pd.DataFrame:
    """What was logged but speed, which is a clock's, and the accuracy over an epoch, which counts from the resume."""
    frame = pd.read_csv(run_dir / "metrics.csv")
    kept = sorted(name for name in frame if not name.startswith("throughput/") and name != "train/accuracy")
    frame = frame[kept].dropna(how="all", subset=[name for name in kept if name not in ("step", "epoch")])
    return frame.sort_values(["step", "train/loss"]).reset_index(drop=True)


def weights(run_dir: Path) -> dict[str, torch.Tensor]:
    return load_checkpoint(run_dir / "model")[0].state_dict()


def assert_same_run(run: Path, whole: Path) -> None:
    pd.testing.assert_frame_equal(curves(run), curves(whole), check_dtype=False, rtol=1e-5, atol=1e-6)
    for name, expected in weights(whole).items():
        torch.testing.assert_close(weights(run)[name], expected, rtol=0, atol=1e-5, msg=name)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Read]:
    """A run of 12 steps that nothing stopped."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        read = Read(patch)
        assert train(folder, callbacks=(read,)).steps == 12
    return folder, read


@pytest.mark.slow
@pytest.mark.parametrize(
    "steps",
    [(7, 10), (6,), (12,)],
    ids=("twice", "after a save at a validation and an epoch's end", "after the last step"),
)
def test_a_resumed_run_reads_what_was_left_and_ends_the_same(
    steps: tuple[int, ...], whole: tuple[Path, Read], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, expected = whole
    passes = expected.batches // 12
    read = Read(monkeypatch)
    for number, step in enumerate(steps):
        with pytest.raises(RuntimeError, match="crashed"):
            stop: Callback = StopAt(step) if step < 12 else AtEnd()
            train(tmp_path, *(("resume=true",) if number else ()), callbacks=(read, stop))
    outcome = run_training(resumed(tmp_path), [read])
    assert outcome.steps == 12
    assert_same_run(tmp_path, folder)
    assert read.votes == expected.votes
    again = sum(step - step // 2 * 2 for step in steps)  # since the last checkpoint
    assert read.batches == expected.batches + again * passes
    for epoch in (0, 1):
        votes = [name for (of, _), names in read.votes.items() if of == epoch for name in names]
        assert len(votes) == len(set(votes)) > 20, "every vote once an epoch"


@pytest.mark.slow
def test_a_resumed_run_leaves_out_what_the_unbroken_one_does(tmp_path: Path) -> None:
    dropout = ("head=late", "head.dropout=0.5", "schedule.max_steps=5", "noise=none", "batching.tokens=4000")
    train(tmp_path / "whole", *dropout)
    with pytest.raises(RuntimeError, match="crashed"):
        train(tmp_path / "resumed", *dropout, callbacks=(StopAt(3),))
    run_training(resumed(tmp_path / "resumed"))
    assert_same_run(tmp_path / "resumed", tmp_path / "whole")


class AtEnd(Callback):
    """A crash once the last step is saved."""

    def on_train_epoch_end(self, trainer: Any, _module: Any) -> None:
        if trainer.global_step == 12:
            raise RuntimeError("crashed")


@pytest.mark.slow
def test_a_killed_run_goes_on(whole: tuple[Path, Read], tmp_path: Path) -> None:
    """SIGKILL, at a step that the metrics file shows."""
    process = FORK.Process(target=train, args=(tmp_path,))
    process.start()
    metrics, deadline = tmp_path / "metrics.csv", time.monotonic() + 60
    while not metrics.is_file() or metrics.read_text().count("\n") < 9:
        assert process.is_alive() and time.monotonic() < deadline
        time.sleep(0.002)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    moved = tmp_path.rename(tmp_path.with_name("moved"))
    best = torch.load(moved / "checkpoints/last.ckpt", weights_only=True)["callbacks"]
    assert best["Checkpoints"].keys() == {"validation/loss", "validation/accuracy"}
    seen = KeptBest()
    run_training(resumed(moved), [seen])
    assert seen.best == best["Checkpoints"], "the best of before the kill is known after it"
    assert_same_run(moved, whole[0])


class KeptBest(Callback):
    """The best validation at the start of the run."""

    best: Any = None

    def on_train_start(self, trainer: Any, _module: Any) -> None:
        self.best = dict(trainer.checkpoint_callbacks[0].best)


@pytest.mark.slow
def test_ctrl_c_saves_the_step_and_names_the_command_that_goes_on(
    whole: tuple[Path, Read], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a temporary folder, which may be on another disk: a kill amid copying from there left no checkpoint."""
    monkeypatch.setattr(tempfile, "mkstemp", lambda *_, **__: pytest.fail("a file in the temporary folder"))
    kinds = signal.SIGINT, signal.SIGTERM
    handlers = [*map(signal.getsignal, kinds)]
    with pytest.raises(KeyboardInterrupt, match=f"go on with: python train.py resume={tmp_path}$"):
        train(tmp_path, callbacks=(CtrlC(4),))
    assert [*map(signal.getsignal, kinds)] == handlers
    assert torch.load(tmp_path / "checkpoints/last.ckpt", weights_only=True)["global_step"] == 5
    with pytest.raises(KeyboardInterrupt, match=f"go on with: python train.py resume={tmp_path}$"):
        run_training(resumed(tmp_path), [CtrlC(6, signal.SIGTERM)])
    assert torch.load(tmp_path / "checkpoints/last.ckpt", weights_only=True)["global_step"] == 7
    run_training(resumed(tmp_path))
    assert [*map(signal.getsignal, kinds)] == handlers
    assert_same_run(tmp_path, whole[0])
    with pytest.raises(FinishedError, match=f"has ended; next: python evaluate.py checkpoint={tmp_path}"):
        rewrite_resume([f"resume={tmp_path}"])
    with pytest.raises(ValueError, match=r"has ended; to train its model further: .* schedule.epochs=6$"):
        rewrite_resume([f"resume={tmp_path}", "schedule.epochs=6"])
    with pytest.raises(AnotherRunError, match=r"a finished run is there; .*overwrite=true"):
        check_unfinished(compose("train", TINY, tmp_path))
    check_unfinished(compose("train", [*TINY, "overwrite=true"], tmp_path))
    interrupted = tmp_path / "interrupted"
    (interrupted / "checkpoints").mkdir(parents=True)
    (interrupted / "checkpoints/last.ckpt").touch()
    with pytest.raises(AnotherRunError, match=f"an interrupted run is there; go on with: .*resume={interrupted}"):
        check_unfinished(compose("train", TINY, interrupted))


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stopped")
    with pytest.raises(RuntimeError, match="crashed"):
        train(folder, callbacks=(StopAt(5),))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (("resume=true", "seed=7"), "seed was 42, now 7"),
        (("resume=true", "schedule.max_steps=9"), r"schedule.max_steps was 0, now 9.*or name another folder"),
        (("overwrite=true", "model.max_length=16"), "no comparison left to train on"),
        (("overwrite=true", "logger=tensorboard"), "pip install .*tensorboard"),
        (("overwrite=true", "optimizer.name=muon", "model.freeze_layers=2"), "optimizer.name=muon: no matrix"),
    ],
)
def test_what_is_refused_is_named_before_anything_is_written(
    changed: tuple[str, ...], why: str, stopped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crm.training.tracking.find_spec", lambda name: None)
    before = {path: path.read_bytes() for path in stopped.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match=why):
        train(stopped, *changed)
    assert {path: path.read_bytes() for path in stopped.rglob("*") if path.is_file()} == before


@pytest.mark.slow
def test_a_new_run_in_an_old_folder_starts_anew(stopped: Path) -> None:
    assert (stopped / "checkpoints/best.ckpt").exists()
    (stopped / "model").mkdir()
    (stopped / "model/crm.json").write_text("{}")
    with pytest.raises(RuntimeError, match="crashed"):
        train(stopped, "schedule.max_steps=1", callbacks=(StopAt(0),))
    assert not (stopped / "model").exists(), "the old run's model is no result of this one"
    train(stopped, "schedule.max_steps=1")
    assert pd.read_csv(stopped / "metrics.csv")["step"].max() == 0
    assert not (stopped / "checkpoints/best.ckpt").exists(), "no validation in one step: this is the old run's best"


def test_a_model_is_replaced_only_when_asked_and_never_where_the_run_starts_from_it(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/crm.json").write_text("{}")
    start = ("model=pretrained", f"model.path={tmp_path}/model")
    for refuses in (check_unfinished, finished_before):
        with pytest.raises(AnotherRunError, match="a model is there; name another folder"):
            refuses(compose("train", TINY, tmp_path))
        refuses(compose("train", [*TINY, "overwrite=true"], tmp_path))
        with pytest.raises(AnotherRunError, match=f"it would replace model.path=.*; .* hydra.run.dir={tmp_path}_2"):
            refuses(compose("train", ["overwrite=true", "data=simulation", *start], tmp_path))


def test_a_run_goes_on_with_its_own_settings(tmp_path: Path) -> None:
    assert rewrite_resume(["resume=true"]) == ["resume=true", "hydra.output_subdir=null"], "what Hydra wrote stays"
    words = ["head=late", "data=file", "data.path=v.csv", 'data.columns=["prompt=Frage, bitte"]', "seed=7"]
    config = compose("train", [*words, "logger=wandb"], tmp_path)
    config.logger.name = 'it is ${x} and "so", isn\'t it'
    (tmp_path / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.structured(config)))
    assert rewrite_resume([f"resume={tmp_path}/checkpoints/last.ckpt"]) == rewrite_resume([f"resume={tmp_path}"])
    again = resumed(tmp_path)
    assert again.resume and again.run_dir == str(tmp_path)
    again.resume = False
    assert again == config
    assert resumed(tmp_path, "schedule.epochs=9", "trainer.devices=2").trainer.devices == 2
