"""Schedule by hand, checkpointing and compiled layers, what is logged, the finite-loss guard."""

import math
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import lightning as L
import pandas as pd
import pytest
import torch
from lightning.pytorch.callbacks import Callback
from torch.optim import AdamW

import crm.training.lit_module
from crm.config import compose
from crm.model.backbone import freeze_lower_layers
from crm.model.batching.plans import Layout, Packing, Padding
from crm.training.config import OptimizerConfig
from crm.training.devices import compile_layers, enable_checkpointing
from crm.training.lit_module import NonFiniteError, build_optimizer, lr_factor
from crm.training.train import run_training
from tests.conftest import TINY_MODEL
from tests.model.helpers import assert_same, outcome

TINY = [
    *(*TINY_MODEL, "data.train=32", "data.validation=8", "data.suite=4", "loss.ties=soft", "schedule.epochs=1"),
    *("trainer.precision=32-true", "trainer.progress=false", "schedule.validate_every=0", "schedule.save_every=2"),
    "schedule.comparisons_per_step=8",
]


def train(run_dir: Path, *overrides: str, callbacks: tuple[Callback, ...] = ()) -> Any:
    return run_training(compose("train", [*TINY, *overrides], run_dir), callbacks)


def test_the_schedule_warms_up_and_falls_as_a_cosine() -> None:
    factors = [lr_factor(step, 3, 11) for step in range(13)]
    assert factors[:4] == [0.25, 0.5, 0.75, 1.0]
    assert factors[7] == pytest.approx(0.5)  # half of the eight steps that are left
    assert factors[5] == pytest.approx((1 + math.sqrt(0.5)) / 2)  # a quarter: cos(pi / 4)
    assert factors[11] == factors[12] == pytest.approx(0.0)
    assert all(0 < factor <= 1 for factor in factors[:11]), "a step with rate 0 would be lost"


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


@pytest.mark.slow
def test_what_a_run_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names and plausible values, a row a step; the accuracies by direction agree with the one over all rows."""
    watch = Watch(monkeypatch)
    settings = ("direction=both", "data.validation=12", "loss.ties=drop", "model.gradient_checkpointing=true")
    rates = ("optimizer.lr=0.01", "optimizer.warmup_fraction=0.25", "schedule.max_steps=4", "schedule.validate_every=2")
    train(tmp_path, "head=scalar", *settings, *rates, callbacks=(watch,))
    table = pd.read_csv(tmp_path / "metrics.csv")
    steps = table.dropna(subset=["train/loss"])
    assert steps["train/lr"].tolist() == pytest.approx([0.01 * lr_factor(step, 1, 4) for step in range(4)])
    assert (steps["train/gradient_norm"] > 0).all() and (steps["train/score_spread"][1:] > 0).all()
    last = table.dropna(subset=["validation/loss"]).iloc[-1]
    original, reverse, both = (last[f"validation/accuracy_{name}"] for name in ("original", "reverse", "sum"))
    assert both == pytest.approx(original + reverse) == pytest.approx(2 * last["validation/accuracy"])
    assert watch.modes == {True}, "in eval mode transformers skips checkpointing and dropout in silence"
    # The last of two layers is pruned to the positions read and has next to nothing to recompute.
    assert watch.recomputed in (4, 8)


class Poison(Callback):
    """Makes the loss or a gradient NaN at the last of four steps, whose weights would be exported."""

    def __init__(self, what: str) -> None:
        self.what = what

    def on_train_batch_start(self, trainer: L.Trainer, pl_module: Any, *_: Any) -> None:
        if self.what == "loss" and trainer.global_step == 3:
            pl_module.model.score.weight.data[0, 0] = math.nan

    def on_after_backward(self, trainer: L.Trainer, pl_module: Any) -> None:
        if self.what == "gradient" and trainer.global_step == 3:
            pl_module.model.score.weight.grad[0, 0] = math.nan


@pytest.mark.slow
@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_what_is_not_finite_stops_the_run_and_is_not_saved(what: str, tmp_path: Path) -> None:
    with pytest.raises(NonFiniteError, match=r"the gradient norm is nan at optimizer step 3.*lower optimizer.lr"):
        train(tmp_path, "schedule.save_every=1", "schedule.validate_every=2", callbacks=(Poison(what),))
    for name, step in (("last", 3), ("best", 2)):
        kept = torch.load(tmp_path / f"checkpoints/{name}.ckpt", weights_only=True)
        assert kept["global_step"] == step
        assert all(torch.isfinite(weights).all() for weights in kept["state_dict"].values())
    assert not (tmp_path / "model").exists() and not (tmp_path / "summary.json").exists()
    assert issubclass(NonFiniteError, ValueError), "the command line turns it into one sentence and exit code 2"


@pytest.mark.slow
def test_a_validation_that_is_not_finite_is_not_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crm.training.lit_module, "preference_loss", lambda logit, _: logit * math.nan)
    with pytest.raises(NonFiniteError, match="validation loss is nan after 4 optimizer steps, so no model"):
        train(tmp_path, "schedule.validate_every=2", "schedule.patience=0")
    assert not (tmp_path / "model").exists()


ADAMW = OptimizerConfig(name="adamw", lr=1e-2, weight_decay=0.1, beta2=0.98)
MUON = replace(ADAMW, name="muon", matrix_lr=1e-2)


def test_without_a_matrix_rate_it_is_adamw_and_vectors_do_not_decay(make_model) -> None:
    model = make_model("scalar")
    model.backbone.embed_tokens.requires_grad_(False)
    optimizer = build_optimizer(model, ADAMW)
    assert type(optimizer) is torch.optim.AdamW
    decayed, plain = optimizer.param_groups
    assert (decayed["weight_decay"], plain["weight_decay"]) == (0.1, 0.0)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    undecayed = {names[id(parameter)] for parameter in plain["params"]}
    assert undecayed == {name for name in names.values() if "norm" in name}
    grouped = undecayed | {names[id(parameter)] for parameter in decayed["params"]}
    assert set(names.values()) - grouped == {"backbone.embed_tokens.weight"}


def test_everything_else_moves_as_under_adamw_alone(make_model) -> None:
    together, alone = make_model("scalar"), make_model("scalar")
    optimizers = build_optimizer(together, MUON), build_optimizer(alone, ADAMW)
    for seed in range(3):
        for model, optimizer in zip((together, alone), optimizers, strict=True):
            generator = torch.Generator().manual_seed(seed)
            for parameter in model.parameters():
                parameter.grad = torch.randn(parameter.shape, generator=generator)
            optimizer.step()
    expected = dict(alone.named_parameters())
    for name, parameter in together.named_parameters():
        assert torch.equal(parameter, expected[name]) != ("layers" in name and parameter.ndim == 2), name


@pytest.mark.slow
def test_a_fused_adamw_is_clipped_in_bfloat16_as_a_plain_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU's own fused kernel stands in for a GPU's."""
    words = ("schedule.max_steps=2", "optimizer.clip=0.001", "trainer.precision=bf16-mixed")
    plain = train(tmp_path / "plain", *words).validation_loss
    monkeypatch.setattr("crm.training.lit_module.AdamW", lambda *given, **own: AdamW(*given, **own | {"fused": True}))
    assert train(tmp_path / "fused", *words).validation_loss == pytest.approx(plain, abs=1e-3)


@pytest.mark.slow
def test_compiled_layers_keep_names_and_numbers(make_model: Any, make_encoder: Any, comparisons: Any) -> None:
    """The backend ``eager`` traces as ``inductor`` does, and generates no code, which takes minutes."""
    encoder, packing = make_encoder("scalar"), Packing(8192)
    batch = packing.collate([encoder.encode(row, "ab") for row in comparisons])
    model = make_model("scalar").train()
    names, plain = list(model.state_dict()), outcome(model, batch)
    compile_layers(model.backbone, backend="eager")
    assert list(model.state_dict()) == names
    assert_same(outcome(model, batch), plain)


@pytest.mark.slow
@pytest.mark.parametrize("layout", [Packing(4096), Padding(4, 0)], ids=["tree", "padded"])
def test_fifty_packs_of_other_shapes_are_hardly_compiled_anew(
    layout: Layout, make_model: Any, make_encoder: Any, many: Any
) -> None:
    """Counted by a backend of our own. Beyond torch's limit, layers would run uncompiled in silence."""
    graphs: list[int] = []

    def counting(graph: Any, _inputs: Any) -> Any:
        graphs.append(len(graph.graph.nodes))
        return graph.forward

    model, shapes, rng = make_model("scalar").train(), set(), Random(0)
    encoded = [make_encoder("scalar").encode(row, "ab") for row in many]
    torch.compiler.reset()
    compile_layers(model.backbone, backend=counting)
    after = []
    for _ in range(50):
        batch = layout.collate(rng.sample(encoded, rng.randint(1, 4)))
        outcome(model, batch)
        shapes.add(tuple(batch.input_ids.shape))
        after.append(len(graphs))
    assert len(shapes) > 3 and after[0] > 1, "the layers"
    assert len(set(after)) - 1 <= 2, "packs after the first at which something was compiled"


def test_checkpointing_sends_no_gradient_through_frozen_layers(
    make_model: Any, make_encoder: Any, comparisons: Any
) -> None:
    model = make_model("scalar").train()
    freeze_lower_layers(model.backbone, 1)
    enable_checkpointing(model.backbone)
    seen = []
    model.backbone.layers[0].register_forward_hook(lambda _module, _inputs, output: seen.append(output.requires_grad))
    outcome(model, Packing(8192).collate([make_encoder("scalar").encode(row, "ab") for row in comparisons]))
    assert seen == [False]
