"""Which parameters go where; Muon's step against a singular value decomposition; the joint state survives a restart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from crm.config import compose
from crm.training.config import OptimizerConfig
from crm.training.lit_module import all_on_cuda, build_optimizer
from crm.training.train import run_training
from tests.conftest import TINY_MODEL

ADAMW = OptimizerConfig(name="adamw", lr=1e-2, weight_decay=0.1, beta2=0.98)
MUON = replace(ADAMW, name="muon", matrix_lr=1e-2)


def give_gradients(model: Any, seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=generator)
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def is_matrix_of_a_layer(name: str, parameter: torch.Tensor) -> bool:
    return "layers" in name and parameter.ndim == 2


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


def test_a_step_of_muon_moves_a_matrix_along_its_gradients_singular_vectors(make_model) -> None:
    """The first step is orthogonal but for the iteration's looseness: singular values near 1 times the rate."""
    model = make_model("scalar")
    optimizer = build_optimizer(model, replace(MUON, weight_decay=0.0, matrix_lr=0.5))
    before = give_gradients(model, seed=0)
    for name, parameter in model.named_parameters():
        if is_matrix_of_a_layer(name, parameter):  # far from singular: five iterations do not lift a value near 0
            left, values, right = torch.linalg.svd(parameter.grad, full_matrices=False)
            parameter.grad = left * torch.linspace(1.0, 3.0, len(values)) @ right
    optimizer.step()
    moved = {name: before[name] - p.detach() for name, p in model.named_parameters() if is_matrix_of_a_layer(name, p)}
    assert len(moved) == 2 * 7
    for name, step in moved.items():
        gradient = dict(model.named_parameters())[name].grad
        left, _, right = torch.linalg.svd(gradient, full_matrices=False)
        expected = 0.5 * max(1.0, gradient.shape[0] / gradient.shape[1]) ** 0.5
        along = (left.T @ step @ right.T).diagonal() / expected
        assert along.min() > 0.6 and along.max() < 1.3, name


def test_everything_else_moves_as_under_adamw_alone(make_model) -> None:
    together, alone = make_model("scalar"), make_model("scalar")
    optimizers = build_optimizer(together, MUON), build_optimizer(alone, ADAMW)
    for seed in range(3):
        for model, optimizer in zip((together, alone), optimizers, strict=True):
            give_gradients(model, seed)
            optimizer.step()
    expected = dict(alone.named_parameters())
    for name, parameter in together.named_parameters():
        assert torch.equal(parameter, expected[name]) != is_matrix_of_a_layer(name, parameter), name


def test_muon_needs_a_matrix(make_model) -> None:
    model = make_model("scalar")
    model.backbone.layers.requires_grad_(False)
    with pytest.raises(ValueError, match=r"optimizer.name=muon: no matrix .*use optimizer.name=adamw"):
        build_optimizer(model, MUON)


@pytest.mark.slow
def test_a_fused_adamw_is_clipped_in_bfloat16_as_a_plain_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU's own fused kernel stands in for a GPU's."""
    words = [*TINY_MODEL, "loss=ranking", "data.train=16", "data.validation=8", "data.suite=4", "schedule.max_steps=2"]
    words += ["optimizer.clip=0.001", "trainer.precision=bf16-mixed", "trainer.progress=false"]
    assert not all_on_cuda([torch.zeros(1)]) and not all_on_cuda([])
    losses = []
    for fused in (False, True):
        monkeypatch.setattr("crm.training.lit_module.all_on_cuda", lambda _, fused=fused: fused)
        losses.append(run_training(compose("train", words, tmp_path / str(fused))).validation_loss)
    assert losses[0] == pytest.approx(losses[1], abs=1e-3)
