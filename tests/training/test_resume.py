"""A run that was killed and resumed is the run that was never stopped: same losses, same validations, same weights.

The kills are real (SIGKILL to a process of its own, at a step that its metrics file shows).
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from lightning.pytorch.callbacks import Callback

from crm.config import compose
from crm.model.export import load_checkpoint
from crm.schema import to_json
from crm.training.checkpointing import LastCheckpoint, SafeCheckpointIO, is_whole
from crm.training.run import TrainingOutcome, run_training
from crm.training.run_folder import AnotherRunError, alone_in
from crm.votes.simulation.arena import simulate
from tests.training.killed_runs import (
    EVERY_SECOND,
    EVERY_STEP,
    FORK,
    LATE,
    TABLE,
    TINY,
    assert_same_run,
    curves,
    kill_at,
    kill_in_save,
    last_step,
    train,
    train_on_tables,
    train_with_dropout,
    votes_read,
)

pytestmark = pytest.mark.slow

WARM_UP = (*EVERY_STEP, "optimizer=paper", "optimizer.lr=1e-3", "optimizer.warmup_fraction=0.6")
"""14 of 24 steps."""
UNVALIDATED = (*EVERY_SECOND, "schedule.validate_every=100")
"""Twelve steps, none of them followed by a validation."""


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, TrainingOutcome]]:
    base = tmp_path_factory.mktemp("uninterrupted")
    return {
        "every_step": (base / "a", train(base / "a", *EVERY_STEP)),
        "accumulated": (base / "b", train(base / "b", *EVERY_SECOND)),
        "dropout": (base / "c", train_with_dropout(base / "c", *EVERY_STEP)),
        "late": (base / "d", train(base / "d", *LATE)),
        "table": (base / "e", train_on_tables(base / "e", *TABLE)),
        "warm_up": (base / "f", train(base / "f", *WARM_UP)),
        "unvalidated": (base / "g", train(base / "g", *UNVALIDATED)),
    }


@pytest.mark.parametrize(
    ("case", "target", "overrides", "kills"),
    [
        # 12 batches an epoch, a checkpoint every 3 steps, a validation every 6: kills in both epochs.
        ("every_step", train, EVERY_STEP, (7, 16)),
        ("accumulated", train, EVERY_SECOND, (8,)),
        ("dropout", train_with_dropout, EVERY_STEP, (10,)),
        ("late", train, LATE, (7,)),
        # Steps without words, and with them.
        ("table", train_on_tables, TABLE, (5, 10)),
        # While the rate rises, and while it falls.
        ("warm_up", train, WARM_UP, (8, 19)),
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
    assert votes_read(tmp_path) == votes_read(reference)


def test_every_vote_is_read_once_an_epoch(uninterrupted: dict[str, tuple[Path, TrainingOutcome]]) -> None:
    """And so it is where the run was killed, as those of a killed one are the same."""
    votes = simulate(seed=1, train=48, validation=8, suite=4).train
    decided = sorted(vote.id for vote in votes if vote.winner != "tie")
    for case in ("every_step", "accumulated", "dropout", "late", "warm_up"):
        assert list(votes_read(uninterrupted[case][0]).values()) == [decided, decided], case


@pytest.mark.parametrize("how", ["half", "whole"])
def test_a_kill_during_a_save_costs_that_save_alone(
    how: str, tmp_path: Path, uninterrupted: dict[str, tuple[Path, TrainingOutcome]]
) -> None:
    kill_in_save(3, how, tmp_path, *EVERY_STEP)
    assert SafeCheckpointIO().load_checkpoint(tmp_path / "checkpoints/last.ckpt")["global_step"] in (3, 6)
    train(tmp_path, *EVERY_STEP, "resume=true")
    assert_same_run(tmp_path, uninterrupted["every_step"][0])
    assert votes_read(tmp_path) == votes_read(uninterrupted["every_step"][0])


def test_the_rate_rises_and_falls_in_the_case_that_tests_it(
    uninterrupted: dict[str, tuple[Path, TrainingOutcome]],
) -> None:
    rates = curves(uninterrupted["warm_up"][0])["train/lr"].dropna().tolist()
    peak = rates.index(max(rates))
    assert 8 < peak < 19 and rates[:peak] == sorted(rates[:peak]) and rates[-1] < rates[peak] / 4


def train_until_saved(run_dir: Path, step: int, *overrides: str) -> None:
    """As `train`, killed as soon as the checkpoint of ``step`` is whole: before Lightning does anything else."""
    save = LastCheckpoint._save

    def save_and_die(self: LastCheckpoint, trainer: Any) -> None:
        save(self, trainer)
        if trainer.global_step == step:
            os.kill(os.getpid(), signal.SIGKILL)

    LastCheckpoint._save = save_and_die  # type: ignore[method-assign]
    train(run_dir, *overrides)


@pytest.mark.parametrize(
    ("case", "overrides", "steps"),
    [
        ("every_step", EVERY_STEP, (3,)),
        ("every_step", EVERY_STEP, (6,)),
        ("accumulated", EVERY_SECOND, (6,)),
        ("accumulated", EVERY_SECOND, (6, 12)),
        ("unvalidated", UNVALIDATED, (6, 12)),
    ],
)
def test_a_kill_right_behind_a_save_loses_no_row(
    case: str,
    overrides: Sequence[str],
    steps: Sequence[int],
    tmp_path: Path,
    uninterrupted: dict[str, tuple[Path, TrainingOutcome]],
) -> None:
    """Followed by no validation, by one, by one at an epoch's end; behind an epoch's end and then behind the last."""
    for number, step in enumerate(steps):
        resume = ("resume=true",) * (number > 0)
        process = FORK.Process(target=train_until_saved, args=(tmp_path, step, *overrides, *resume))
        process.start()
        process.join(120)
        assert process.exitcode == -signal.SIGKILL
    outcome = train(tmp_path, *overrides, "resume=true")
    reference, expected = uninterrupted[case]
    assert_same_run(tmp_path, reference)
    assert outcome.digest == expected.digest, "the best checkpoint is another one"


def test_with_kept_states_a_resumed_run_agrees_to_rounding(tmp_path: Path) -> None:
    """They are computed anew, in other batches, whose sums may round otherwise: the last bits are not promised."""
    settings = (*EVERY_STEP, "model.freeze_layers=1", "schedule.epochs=1")
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


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with records of one's own and a run on them that was stopped on the way."""
    folder = tmp_path_factory.mktemp("stopped")
    votes = simulate(seed=1, train=70, validation=8, suite=4).train
    (folder / "votes.jsonl").write_text("".join(to_json(vote) + "\n" for vote in votes), encoding="utf-8")
    kill_at(7, folder / "run", train, *own_data(folder))
    return folder


def own_data(folder: Path) -> tuple[str, ...]:
    return (*EVERY_STEP, "data=records", f"data.path={folder / 'votes.jsonl'}", "data.train=48", "data.validation=8")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ("seed=7", "seed was 42, now 7"),
        ("loss=cls", "head.name was 'scalar', now 'pairwise'"),
        (("head=pairwise_span", "loss=cls"), "head.name was 'scalar', now 'pairwise_span'"),
        ("prompt=criteria_last", "prompt.order was 'criteria_first', now 'criteria_last'"),
        ("direction=both", "direction.kind was 'random', now 'both'"),
        ("noise=add", "noise.kind was 'none', now 'add'"),
        ("criteria=none", "criteria was 'own', now 'none'"),
        ("optimizer.lr=0.5", r"optimizer.lr was [\de.-]+, now 0.5"),
        ("optimizer=paper", "optimizer.name was 'muon', now 'adamw'"),
        ("trainer.precision=bf16-mixed", "trainer.precision was '32-true', now 'bf16-mixed'"),
        ("schedule.max_steps=9", "schedule.max_steps was 0, now 9"),
        ("schedule.comparisons_per_step=8", "schedule.comparisons_per_step was 4, now 8"),
        ("batching=padded", "batching.name was 'tree', now 'padded'"),
        ("model.hidden_size=32", "model.hidden_size was 16, now 32"),
        ("data.train=40", "data.train was 48, now 40"),
        ("data.seed=5", "data.seed was 1, now 5"),
        (("data=simulation", "data.path=null"), "data.name was 'records', now 'simulation'"),
    ],
)
def test_a_run_of_other_settings_is_refused_before_anything_is_written(
    changed: str | tuple[str, ...], said: str, stopped: Path
) -> None:
    before = contents(stopped / "run")
    with pytest.raises(AnotherRunError, match=said):
        train(
            stopped / "run", *own_data(stopped), "resume=true", *((changed,) if isinstance(changed, str) else changed)
        )
    assert contents(stopped / "run") == before


def test_a_file_with_flipped_labels_is_other_data(stopped: Path, tmp_path: Path) -> None:
    flipped = {'"winner": "a"': '"winner": "b"', '"winner": "b"': '"winner": "a"'}
    text = (stopped / "votes.jsonl").read_text(encoding="utf-8")
    other = tmp_path / "votes.jsonl"
    other.write_text(re.sub("|".join(flipped), lambda found: flipped[found[0]], text), encoding="utf-8")
    before = contents(stopped / "run")
    with pytest.raises(AnotherRunError, match=r"other settings: the data \(rows to train and validate on\) differ"):
        train(stopped / "run", *own_data(stopped), "resume=true", f"data.path={other}")
    assert contents(stopped / "run") == before


def test_a_checkpoint_without_its_settings_is_refused(stopped: Path, tmp_path: Path) -> None:
    shutil.copytree(stopped / "run", tmp_path / "run")
    last = tmp_path / "run/checkpoints/last.ckpt"
    state = SafeCheckpointIO().load_checkpoint(last)
    del state["run"]
    SafeCheckpointIO().save_checkpoint(state, last)
    with pytest.raises(AnotherRunError, match="does not say which run it is of"):
        train(tmp_path / "run", *own_data(stopped), "resume=true")


def test_a_run_goes_on_where_its_folder_and_its_files_were_moved(stopped: Path, tmp_path: Path) -> None:
    whole = train(tmp_path / "whole", *own_data(stopped))
    shutil.copytree(stopped, tmp_path / "moved")
    resumed = train(tmp_path / "moved/run", *own_data(tmp_path / "moved"), "schedule.save_every=2", "resume=true")
    assert resumed.validation_loss == whole.validation_loss and resumed.digest == whole.digest


class Ruin(Callback):
    """Makes every validation from now on worse."""

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        with torch.no_grad():
            pl_module.model.score.weight.normal_(0.0, 100.0)


def test_the_best_of_before_a_move_is_the_best_after_it(tmp_path: Path) -> None:
    settings = (*EVERY_STEP, "schedule.validate_every=3", "schedule.patience=0")
    kill_at(7, tmp_path / "run", train, *settings)
    best = SafeCheckpointIO().load_checkpoint(tmp_path / "run/checkpoints/best.ckpt")["state_dict"]
    (tmp_path / "run").rename(tmp_path / "moved")
    outcome = run_training(compose("train", [*TINY, *settings, "resume=true"], tmp_path / "moved"), [Ruin()])
    exported = load_checkpoint(outcome.checkpoint)[0].state_dict()
    assert all(torch.equal(best[f"model.{name}"], weight) for name, weight in exported.items())


def test_two_trainings_never_share_a_folder(tmp_path: Path) -> None:
    with alone_in(tmp_path / "run"):
        before = contents(tmp_path / "run")
        with pytest.raises(AnotherRunError, match=r"hydra\.run\.dir=.*run: another training is at work there"):
            train(tmp_path / "run", *EVERY_STEP)
        assert contents(tmp_path / "run") == before
    with alone_in(tmp_path / "run"):
        pass  # free again


def test_the_default_folder_is_one_s_own_to_the_microsecond() -> None:
    conf = Path(__file__).resolve().parents[2] / "conf"
    patterns = [line for file in conf.glob("*.yaml") for line in file.read_text().splitlines() if "{now:" in line]
    assert len(patterns) >= 10 and all(line.endswith("${now:%H-%M-%S-%f}") for line in patterns)


def test_resuming_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="resume=true: no whole checkpoint"):
        train(tmp_path, "resume=true")


def test_a_new_run_in_an_old_folder_starts_anew(tmp_path: Path) -> None:
    train(tmp_path, *EVERY_STEP, "schedule.max_steps=6")
    train(tmp_path, *EVERY_STEP, "schedule.max_steps=3")
    assert last_step(tmp_path) == 2
    assert not (tmp_path / "checkpoints/best.ckpt").exists(), "no validation in 3 steps: this is the old run's best"


def test_nobody_asks_lightning_for_the_number_of_steps() -> None:
    """Reading it builds the loaders early, and a resumed run then forgets its position in the epoch."""
    for file in (Path(__file__).resolve().parents[2] / "crm").rglob("*.py"):
        names = {node.attr for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Attribute)}
        assert "estimated_stepping_batches" not in names, file
