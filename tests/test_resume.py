"""A run that was killed and resumed is the run that was never stopped: same losses, same validations, same weights.

The kills are real (SIGKILL to a process of its own, at a step that its metrics file shows).
"""

from __future__ import annotations

import ast
import multiprocessing
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from crm.checkpointing import SafeCheckpointIO, is_whole
from crm.config import compose
from crm.training import TrainingOutcome, run_training

TINY = (
    *("model.hidden_size=16", "model.layers=2", "model.heads=2", "model.vocab_size=400", "loss=ranking"),
    *("data.train=48", "data.validation=8", "data.suite=4", "trainer.epochs=2", "trainer.batch_size=4"),
    *("trainer.precision=32-true", "trainer.progress=false", "trainer.threads=1", "trainer.save_every=3"),
)
EVERY_STEP = ("trainer.accumulate=1", "trainer.validate_every=6", "trainer.patience=30")
EVERY_SECOND = ("trainer.accumulate=2", "trainer.validate_every=0", "noise=random")
FORK = multiprocessing.get_context("fork")
"""torch is imported already, so that a killed run costs its steps and not its imports."""


def train(run_dir: Path, *overrides: str) -> TrainingOutcome:
    return run_training(compose("train", [*TINY, *overrides], run_dir))


def train_with_dropout(run_dir: Path, *overrides: str) -> TrainingOutcome:
    """As `train`, with dropout in the attention, which draws from torch's own generator."""
    import crm.building

    plain = crm.building.build_tiny_backbone

    def with_dropout(*arguments: Any) -> Any:
        backbone = plain(*arguments)
        for layer in backbone.layers:
            layer.self_attn.attention_dropout = 0.3
        return backbone

    crm.building.build_tiny_backbone = with_dropout  # type: ignore[assignment]
    try:
        return train(run_dir, *overrides)
    finally:
        crm.building.build_tiny_backbone = plain


def kill_at(step: int, run_dir: Path, target: Any, *overrides: str) -> None:
    """Start a run in a process of its own and kill it once its metrics show ``step``."""
    process = FORK.Process(target=target, args=(run_dir, *overrides))
    process.start()
    deadline = time.monotonic() + 60
    while last_step(run_dir) < step:
        assert process.is_alive(), "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL


def last_step(run_dir: Path) -> int:
    file = run_dir / "metrics.csv"
    lines = file.read_text().splitlines()[1:] if file.exists() else []
    steps = [line.split(",")[1] for line in lines if line.count(",") > 1]
    return max((int(step) for step in steps if step.isdigit()), default=-1)


def curves(run_dir: Path) -> pd.DataFrame:
    """All that was logged but the speed, which is of a clock and begins anew with a resumed run."""
    frame = pd.read_csv(run_dir / "metrics.csv")
    kept = sorted(name for name in frame.columns if not name.startswith("throughput/"))
    frame = frame.dropna(how="all", subset=[name for name in kept if name not in ("step", "epoch")])
    return frame[kept].astype({"epoch": float}).sort_values(["step", "epoch", "train/loss"]).reset_index(drop=True)


def assert_same_run(resumed: Path, uninterrupted: Path) -> None:
    pd.testing.assert_frame_equal(curves(resumed), curves(uninterrupted), check_exact=True)
    ours, theirs = (
        SafeCheckpointIO().load_checkpoint(run / "checkpoints/last.ckpt") for run in (resumed, uninterrupted)
    )
    for name, weights in theirs["state_dict"].items():
        assert torch.equal(ours["state_dict"][name], weights), name
    assert ours["global_step"] == theirs["global_step"]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, TrainingOutcome]]:
    base = tmp_path_factory.mktemp("uninterrupted")
    return {
        "every_step": (base / "a", train(base / "a", *EVERY_STEP)),
        "accumulated": (base / "b", train(base / "b", *EVERY_SECOND)),
        "dropout": (base / "c", train_with_dropout(base / "c", *EVERY_STEP)),
    }


@pytest.mark.parametrize(
    ("case", "target", "overrides", "kills"),
    [
        # 12 batches an epoch, a checkpoint every 3 steps, a validation every 6: kills in both epochs.
        ("every_step", train, EVERY_STEP, (7, 16)),
        ("accumulated", train, EVERY_SECOND, (8,)),
        ("dropout", train_with_dropout, EVERY_STEP, (10,)),
    ],
)
def test_a_killed_and_resumed_run_is_the_run_that_was_never_stopped(
    case: str,
    target: Any,
    overrides: Sequence[str],
    kills: Sequence[int],
    tmp_path: Path,
    uninterrupted: dict[str, tuple[Path, TrainingOutcome]],
) -> None:
    resume: tuple[str, ...] = ()
    for step in kills:
        kill_at(step, tmp_path, target, *overrides, *resume)
        assert last_step(tmp_path) >= step
        resume = ("resume=true",)
    outcome = target(tmp_path, *overrides, "resume=true")
    reference, expected = uninterrupted[case]
    assert_same_run(tmp_path, reference)
    assert outcome.digest == expected.digest, "the best checkpoint is another one"
    assert outcome.validation_loss == expected.validation_loss


def test_with_kept_states_a_resumed_run_agrees_to_rounding(tmp_path: Path) -> None:
    """They are computed anew, in other batches, whose sums may round otherwise: the last bits are not promised."""
    settings = (*EVERY_STEP, "model.freeze_layers=1", "trainer.epochs=1")
    train(tmp_path / "whole", *settings)
    kill_at(7, tmp_path / "killed", train, *settings)
    train(tmp_path / "killed", *settings, "resume=true")
    pd.testing.assert_frame_equal(curves(tmp_path / "killed"), curves(tmp_path / "whole"), rtol=1e-3, atol=1e-5)


def test_dropout_matters_in_the_case_that_tests_it(uninterrupted: dict[str, tuple[Path, TrainingOutcome]]) -> None:
    plain, dropped = (curves(uninterrupted[case][0])["train/loss"].dropna() for case in ("every_step", "dropout"))
    assert not plain.equals(dropped)


@pytest.mark.parametrize("damage", ["flip", "cut"])
def test_a_damaged_last_checkpoint_costs_one_interval(
    damage: str, tmp_path: Path, uninterrupted: dict[str, tuple[Path, TrainingOutcome]]
) -> None:
    kill_at(8, tmp_path, train, *EVERY_STEP)
    last = tmp_path / "checkpoints/last.ckpt"
    content = bytearray(last.read_bytes())
    content[len(content) // 2] ^= 1
    last.write_bytes(content if damage == "flip" else content[: len(content) // 2])
    assert not is_whole(last)
    train(tmp_path, *EVERY_STEP, "resume=true")
    assert_same_run(tmp_path, uninterrupted["every_step"][0])


@pytest.mark.parametrize(("changed", "said"), [("seed=7", "seed=42"), ("trainer.batch_size=8", "global_batch=4")])
def test_resuming_with_other_batches_is_refused(changed: str, said: str, tmp_path: Path) -> None:
    train(tmp_path, *EVERY_STEP, "trainer.max_steps=4")
    with pytest.raises(ValueError, match=said):
        train(tmp_path, *EVERY_STEP, "resume=true", changed)


def test_resuming_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="resume=true: no whole checkpoint"):
        train(tmp_path, "resume=true")


def test_a_new_run_in_an_old_folder_starts_anew(tmp_path: Path) -> None:
    train(tmp_path, *EVERY_STEP, "trainer.max_steps=6")
    train(tmp_path, *EVERY_STEP, "trainer.max_steps=3")
    assert last_step(tmp_path) == 2
    assert not (tmp_path / "checkpoints/best.ckpt").exists(), "no validation in 3 steps: this is the old run's best"


def test_nobody_asks_lightning_for_the_number_of_steps() -> None:
    """Reading it builds the loaders early, and a resumed run then forgets its position in the epoch."""
    for file in (Path(__file__).resolve().parents[1] / "crm").rglob("*.py"):
        names = {node.attr for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Attribute)}
        assert "estimated_stepping_batches" not in names, file
