"""Schedule by hand, decay groups, gradient checkpointing that really runs, accumulation, and the finite-loss guard."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning as L
import pandas as pd
import pytest
import torch
from lightning.pytorch.callbacks import Callback

import crm.training.metrics
from crm.config import compose
from crm.model.batching.loader import TrainLoader
from crm.training.checkpointing import SafeCheckpointIO
from crm.training.lit_module import LitRewardModel, NonFiniteError, lr_factor, total_norm
from crm.training.train import run_training
from tests.conftest import TINY_MODEL

pytestmark = pytest.mark.slow

TINY = [
    *TINY_MODEL,
    *("data.train=32", "data.validation=8", "data.suite=4", "loss.ties=soft", "schedule.epochs=1"),
    *("trainer.precision=32-true", "trainer.progress=false", "schedule.validate_every=0", "schedule.save_every=2"),
]


def train(run_dir: Path, *overrides: str, callbacks: list[Callback] | None = None) -> Any:
    return run_training(compose("train", [*TINY, *overrides], run_dir), callbacks or [])


def test_the_schedule_warms_up_and_falls_as_a_cosine() -> None:
    factors = [lr_factor(step, 3, 11) for step in range(13)]
    assert factors[:3] == [0.25, 0.5, 0.75]
    assert factors[3] == 1.0
    assert factors[7] == pytest.approx(0.5)  # half of the eight steps that are left
    assert factors[5] == pytest.approx((1 + math.sqrt(0.5)) / 2)  # a quarter: cos(pi / 4)
    assert factors[11] == factors[12] == pytest.approx(0.0)
    assert all(0 < factor <= 1 for factor in factors[:11]), "a step with rate 0 would be lost"


def module(model: Any, **changes: Any) -> LitRewardModel:
    settings = {"lr": 1e-2, "weight_decay": 0.1, "betas": (0.9, 0.98), "warmup_fraction": 0.25, "total_steps": 10}
    return LitRewardModel(model, **{**settings, **changes})


def test_the_learning_rate_follows_the_schedule_in_a_run(tmp_path: Path) -> None:
    train(tmp_path, "schedule.comparisons_per_step=4", "optimizer.lr=0.01", "optimizer.warmup_fraction=0.25")
    rates = pd.read_csv(tmp_path / "metrics.csv")["train/lr"].dropna().tolist()
    assert rates == pytest.approx([0.01 * lr_factor(step, 2, 8) for step in range(8)])


class Watch(Callback):
    """Counts calls of the function that recomputes a layer, and whether the backbone was in training mode."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.modes: set[bool] = set()
        self.recomputed = 0
        checkpoint = torch.utils.checkpoint.checkpoint

        def counted(*arguments: Any, **named: Any) -> Any:
            self.recomputed += 1
            return checkpoint(*arguments, **named)

        # transformers binds the function where checkpointing is switched on, so this stands before the model is built.
        monkeypatch.setattr(torch.utils.checkpoint, "checkpoint", counted)
        monkeypatch.setattr("transformers.modeling_utils.checkpoint", counted, raising=False)

    def on_before_zero_grad(self, trainer: L.Trainer, pl_module: Any, optimizer: Any) -> None:
        self.modes.add(pl_module.model.backbone.training)


def test_gradient_checkpointing_really_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(monkeypatch)
    train(tmp_path, "schedule.comparisons_per_step=16", "model.gradient_checkpointing=true", callbacks=[watch])
    assert watch.modes == {True}, "in eval mode transformers skips checkpointing and dropout in silence"
    # Two layers, two steps; the last layer is pruned to the positions read and has next to nothing to recompute.
    assert watch.recomputed in (2, 4)


def test_four_batches_of_4_are_one_of_16(tmp_path: Path) -> None:
    """Same rows, same steps: the batches of 4 are cut from those of 16, so the losses of the steps agree."""
    import crm.model.batching.loader

    real = crm.model.batching.loader.plan_epoch

    def cut_into_fours(*arguments: Any, **named: Any) -> Any:
        plan = real(arguments[0], arguments[1], 16, **named)
        fours = [batch[at : at + 4] for batch in plan.batches for at in range(0, len(batch), 4)]
        return type(plan)(fours, plan.overlong)

    padded = ("batching=padded", "schedule.epochs=2")
    whole = train(tmp_path / "whole", "schedule.comparisons_per_step=16", *padded)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("crm.model.batching.loader.plan_epoch", cut_into_fours)
        patch.setattr("crm.training.datamodule.plan_epoch", cut_into_fours)
        parts = train(tmp_path / "parts", "schedule.comparisons_per_step=16", "batching.batch_size=4", *padded)
    assert (whole.steps, parts.steps) == (4, 4)
    assert parts.validation_loss == pytest.approx(whole.validation_loss, abs=1e-4)
    steps = pd.read_csv(tmp_path / "whole/metrics.csv").dropna(subset=["validation/loss"])["validation/loss"]
    others = pd.read_csv(tmp_path / "parts/metrics.csv").dropna(subset=["validation/loss"])["validation/loss"]
    assert others.tolist() == pytest.approx(steps.tolist(), abs=1e-4)


class Passes(Callback):
    """Counts forward passes of training."""

    passes = 0

    def on_train_batch_end(self, *_: Any) -> None:
        self.passes += 1


@pytest.mark.parametrize("head", ["scalar", "pairwise_span"])
def test_a_step_in_one_pass_is_that_step_in_many(head: str, tmp_path: Path) -> None:
    """The same rows a step, in one pack or in several of unequal size: the same curve."""
    common = (f"head={head}", "schedule.comparisons_per_step=16", "loss.ties=drop")
    curves = {}
    for name, tokens in (("tree", 100_000), ("tree", 400)):
        count = Passes()
        settings = (f"batching={name}", f"batching.tokens={tokens}")
        run = train(tmp_path / f"{name}{tokens}", *common, *settings, callbacks=[count])
        rows = pd.read_csv(tmp_path / f"{name}{tokens}/metrics.csv")
        validation, training = (rows[f"{stage}/loss"].dropna().tolist() for stage in ("validation", "train"))
        curves[name, tokens] = (count.passes / run.steps, validation + training)
    (one, expected), *others = curves.values()
    assert one == 1 and all(passes > 1 for passes, _ in others)
    for _, losses in others:
        assert losses == pytest.approx(expected, abs=1e-4)


class Poison(Callback):
    """Makes a weight NaN before an optimizer step's batch."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_train_batch_start(self, trainer: L.Trainer, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if trainer.global_step == self.step:
            with torch.no_grad():
                pl_module.model.score.weight[0, 0] = float("nan")


def test_a_loss_that_is_not_finite_stops_the_run_with_the_step_named(tmp_path: Path) -> None:
    with pytest.raises(NonFiniteError, match="loss is nan at optimizer step 5"):
        train(tmp_path, "schedule.comparisons_per_step=4", callbacks=[Poison(5)])
    kept = SafeCheckpointIO().load_checkpoint(tmp_path / "checkpoints/last.ckpt")
    assert kept["global_step"] == 4
    assert all(torch.isfinite(weights).all() for weights in kept["state_dict"].values())
    assert issubclass(NonFiniteError, ValueError), "the command line turns it into one sentence and exit code 2"


class PoisonGradient(Callback):
    """Makes one gradient NaN at an optimizer step, behind a loss that is finite."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_after_backward(self, trainer: L.Trainer, pl_module: Any) -> None:
        if trainer.global_step == self.step:
            pl_module.model.score.weight.grad[0, 0] = float("nan")


class Explode(Callback):
    """A weight overflows in an optimizer step, as under a learning rate that it does not survive."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_before_optimizer_step(self, trainer: L.Trainer, pl_module: Any, optimizer: Any) -> None:
        if trainer.global_step == self.step:
            weight = pl_module.model.score.weight.data
            optimizer.register_step_post_hook(lambda *_: weight.mul_(torch.inf))


def assert_all_finite(run_dir: Path) -> None:
    kept = [path for path in (run_dir / "checkpoints").glob("*.ckpt*") if path.suffix != ".sha256"]
    assert kept, "at least one was saved"
    for path in kept:
        states = SafeCheckpointIO().load_checkpoint(path)["state_dict"].values()
        assert all(torch.isfinite(weights).all() for weights in states), path


def test_a_gradient_that_is_not_finite_touches_no_weight(tmp_path: Path) -> None:
    step = 7  # the last one, whose weights would be exported
    settings = ("schedule.comparisons_per_step=4", "schedule.save_every=1", "schedule.validate_every=2")
    with pytest.raises(NonFiniteError, match=f"the gradient norm is nan at optimizer step {step}"):
        train(tmp_path, *settings, callbacks=[PoisonGradient(step)])
    assert_all_finite(tmp_path)
    assert SafeCheckpointIO().load_checkpoint(tmp_path / "checkpoints/last.ckpt")["global_step"] == step
    assert not (tmp_path / "model").exists() and not (tmp_path / "summary.json").exists()


def test_a_step_that_throws_the_weights_away_saves_none_of_them(tmp_path: Path) -> None:
    with pytest.raises(NonFiniteError, match=r"the weight norm is (inf|nan) after optimizer step 1"):
        train(tmp_path, "schedule.comparisons_per_step=4", "schedule.save_every=1", callbacks=[Explode(1)])
    assert_all_finite(tmp_path)
    assert SafeCheckpointIO().load_checkpoint(tmp_path / "checkpoints/last.ckpt")["global_step"] == 1


def test_a_validation_that_is_not_finite_is_never_the_best_and_not_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crm.training.metrics, "preference_loss", lambda logit, _: logit * math.nan)
    with pytest.raises(NonFiniteError, match="validation loss is nan after 8 optimizer steps, so no model"):
        train(tmp_path, "schedule.comparisons_per_step=4", "schedule.validate_every=2", "schedule.patience=0")
    assert not (tmp_path / "model").exists() and not (tmp_path / "checkpoints/best.ckpt").exists()


def test_random_state_travels_with_the_checkpoint(make_model: Callable[..., Any]) -> None:
    lit, kept = module(make_model("scalar")), {}
    torch.manual_seed(3)
    lit.on_save_checkpoint(kept)
    expected = torch.rand(4)
    torch.manual_seed(99)
    lit.on_load_checkpoint(kept)
    assert torch.equal(torch.rand(4), expected)


@pytest.mark.parametrize("head", ["scalar", "pairwise"])
def test_what_a_run_logs(head: str, tmp_path: Path) -> None:
    """Names and plausible values, a row a step; the accuracies by direction agree with the one over all rows."""
    train(
        tmp_path,
        f"head={head}",
        "direction=both",
        "schedule.comparisons_per_step=16",
        "data.validation=12",
        "loss.ties=drop",
    )
    table = pd.read_csv(tmp_path / "metrics.csv")
    steps = table.dropna(subset=["train/loss"])
    assert (steps["train/gradient_norm"] > 0).all()
    assert steps["tokens_seen"].is_monotonic_increasing and steps["tokens_seen"].iloc[0] > 16
    assert ("train/score_mean" in table, "train/score_spread" in table) == ((head == "scalar",) * 2)
    if head == "scalar":
        assert (steps["train/score_spread"][1:] > 0).all() and steps["train/score_mean"].notna().all()
    last = table.dropna(subset=["validation/loss"]).iloc[-1]
    original, reverse, both = (last[f"validation/accuracy_{name}"] for name in ("original", "reverse", "sum"))
    assert both == pytest.approx(original + reverse) == pytest.approx(2 * last["validation/accuracy"])
    assert 0 <= last["validation/expected_calibration_error"] <= 1
    assert not [name for name in table.columns if "margins" in name], "a histogram is no column"


class Step(Callback):
    """Keeps gradient norm and logged loss of each optimizer step."""

    def __init__(self) -> None:
        self.norms: list[float] = []
        self.loss = math.nan

    def on_before_optimizer_step(self, trainer: L.Trainer, pl_module: Any, optimizer: Any) -> None:
        self.norms.append(total_norm([weight.grad for weight in pl_module.parameters() if weight.grad is not None]))

    def on_train_batch_end(self, trainer: L.Trainer, *_: Any) -> None:
        self.loss = float(trainer.callback_metrics["train/loss"])


def test_a_short_step_of_padded_passes_has_gradient_and_loss_of_its_rows(
    make_model: Any, make_encoder: Any, many: Any, tmp_path: Path
) -> None:
    """One pass of all rows, passes of 4 and 3, and one pass of a step that could have four."""
    found = []
    for batch_size, passes in ((16, 1), (4, 4), (16, 4)):
        torch.manual_seed(0)
        model = make_model("scalar")
        given = {"batch_size": batch_size, "pad_id": 0, "seed": 1, "passes": passes}
        loader = TrainLoader(lambda _: many[:7], make_encoder("scalar"), **given)
        seen = Step()
        quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
        trainer = L.Trainer(
            accelerator="cpu", max_epochs=1, accumulate_grad_batches=passes, enable_checkpointing=False,
            callbacks=[seen], default_root_dir=tmp_path, **quiet,
        )  # fmt: skip
        trainer.fit(module(model, total_steps=1, lr=1e-6), train_dataloaders=loader)
        assert len(seen.norms) == 1
        found.append((seen.norms[0], seen.loss))
    for norm, loss in found[1:]:
        assert norm == pytest.approx(found[0][0], rel=1e-4)
        assert loss == pytest.approx(found[0][1], rel=1e-4)
