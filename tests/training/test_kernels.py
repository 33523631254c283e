"""Compiled layers and Liger's kernels leave names, weights and numbers alone, and everything as it was afterwards.

In float32: a compiler would trace into what `in_float64` puts around every operation.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from transformers.models.qwen3 import modeling_qwen3

from crm.model.attention.frozen_layers import freeze_lower_layers
from crm.model.batching.batches import collate
from crm.model.batching.plans import Packing
from crm.training.kernels import compiled_layers, enable_checkpointing, liger_kernels
from tests.model.outcomes import assert_same, outcome

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.fixture
def batch(make_encoder: Any, comparisons: Any) -> Any:
    encoder = make_encoder("scalar")
    return collate([encoder.encode(row, "ab") for row in comparisons], pad_id=0)


@pytest.mark.slow
def test_compiled_layers_are_traced_once_for_all_forests(make_model: Any, make_encoder: Any, comparisons: Any) -> None:
    """Attention over a forest is left out of the trace; norms, projections and MLPs are in it."""
    from torch._dynamo.utils import counters

    encoder, packing = make_encoder("scalar"), Packing(8192)
    rows = [encoder.encode(row, "ab") for row in comparisons]
    batches = [packing.collate(rows[:count]) for count in (3, 1, 2)]
    model = make_model("scalar").train()
    plain = [outcome(model, batch) for batch in batches]
    torch._dynamo.reset()
    counters.clear()
    traced = []
    with compiled_layers(model.backbone, CPU, backend="eager"):
        for batch, expected in zip(batches, plain, strict=True):
            assert_same(outcome(model, batch), expected)
            traced.append(counters["stats"]["unique_graphs"])
    assert traced[0] >= 5 and len(set(traced)) == 1, "the trial, and two pieces of each of two layers"
    (reason,) = counters["graph_break"]
    assert "torch.compiler.disable" in reason


@pytest.mark.slow
@pytest.mark.parametrize("checkpointing", [False, True])
def test_compiled_layers_are_traced_and_give_the_same_numbers(checkpointing: bool, make_model: Any, batch: Any) -> None:
    """The backend ``eager`` traces as ``inductor`` does, and generates no code, which takes minutes."""
    from torch._dynamo.utils import counters

    model = make_model("scalar").train()
    if checkpointing:
        enable_checkpointing(model.backbone)
    names, expected = list(model.state_dict()), outcome(model, batch)
    torch._dynamo.reset()
    counters.clear()
    with compiled_layers(model.backbone, CPU, backend="eager"):
        assert list(model.state_dict()) == names
        assert_same(outcome(model, batch), expected)
        traced = counters["stats"]["unique_graphs"]
    assert traced >= 3, "the trial and two layers"
    counters.clear()
    outcome(model, batch)
    assert not counters["stats"], "plain again"


def test_a_machine_that_cannot_compile_says_so(make_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no compiler here\nand a long story")

    monkeypatch.setattr("torch.compile", broken)
    message = r"trainer\.compile=true: cannot compile for cpu \(no compiler here\); use false"
    with pytest.raises(ValueError, match=message), compiled_layers(make_model("scalar").backbone, CPU):
        pytest.fail("went on")


def test_checkpointing_sends_no_gradient_through_frozen_layers(make_model: Any, batch: Any) -> None:
    model = make_model("scalar").train()
    freeze_lower_layers(model.backbone, 1)
    enable_checkpointing(model.backbone)
    seen = []
    model.backbone.layers[0].register_forward_hook(lambda _module, _inputs, output: seen.append(output.requires_grad))
    outcome(model, batch)
    assert seen == [False]


@pytest.fixture
def liger(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A stand-in that replaces what the package replaces, as far as this code relies on it."""
    package, module = ModuleType("liger_kernel"), ModuleType("liger_kernel.transformers")
    calls: list[dict[str, Any]] = []

    def apply(model: Any, **settings: Any) -> None:
        calls.append(settings)
        modeling_qwen3.Qwen3RMSNorm = modeling_qwen3.Qwen3MLP = SimpleNamespace  # type: ignore[misc, assignment]
        modeling_qwen3.apply_rotary_pos_emb = lambda *_: (_ for _ in ()).throw(RuntimeError("the kernel's rotation"))
        base = getattr(model, model.base_model_prefix, model)
        for part in (base.norm, *(layer.mlp for layer in base.layers)):
            part.__dict__["forward"] = (lambda self, states: states * 0).__get__(part, type(part))
            part.__dict__["_get_name"] = lambda: "Liger"

    module.apply_liger_kernel_to_qwen3 = apply  # type: ignore[attr-defined]
    package.transformers = module  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "liger_kernel", package)
    monkeypatch.setitem(sys.modules, "liger_kernel.transformers", module)
    return calls


def test_ligers_kernels_replace_norm_mlp_and_rotation_and_nothing_stays(
    liger: Any, make_model: Any, batch: Any
) -> None:
    model = make_model("scalar")
    names, before, (logits, _) = list(model.state_dict()), repr(model), outcome(model, batch)
    pieces = [modeling_qwen3.Qwen3RMSNorm, modeling_qwen3.Qwen3MLP, modeling_qwen3.apply_rotary_pos_emb]
    with liger_kernels(model.backbone, GPU):
        assert "Liger" in repr(model) and list(model.state_dict()) == names
        with pytest.raises(RuntimeError, match="the kernel's rotation"):
            model(batch)
    assert liger == [
        {"rope": True, "rms_norm": True, "swiglu": True, "cross_entropy": False, "fused_linear_cross_entropy": False}
    ]
    assert repr(model) == before
    assert pieces == [modeling_qwen3.Qwen3RMSNorm, modeling_qwen3.Qwen3MLP, modeling_qwen3.apply_rotary_pos_emb]
    assert torch.equal(outcome(model, batch)[0], logits)
    assert model.prunes, "the pruned layer keeps its own forward"
    assert "forward" in vars(model.backbone.layers[-1])


def test_liger_says_what_is_missing(make_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    backbone = make_model("scalar").backbone
    monkeypatch.setitem(sys.modules, "liger_kernel", None)
    with pytest.raises(ValueError, match=r"need a CUDA GPU, not cpu"), liger_kernels(backbone, CPU):
        pass
    with pytest.raises(ValueError, match=r"pip install 'crm-leaderboard\[liger\]'"), liger_kernels(backbone, GPU):
        pass
    backbone.config.model_type = "gemma2"
    with pytest.raises(ValueError, match=r"no kernels for gemma2, only for qwen3, llama"), liger_kernels(backbone, GPU):
        pass
