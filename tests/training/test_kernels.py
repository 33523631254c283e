"""Compiled layers and gradient checkpointing leave names, weights and numbers alone.

In float32: a compiler would trace into what `in_float64` puts around every operation.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from crm.model.attention.frozen_layers import freeze_lower_layers
from crm.model.batching.plans import Packing
from crm.training.devices import compile_layers, enable_checkpointing
from tests.model.outcomes import assert_same, outcome

CPU = torch.device("cpu")


@pytest.mark.slow
def test_compiled_layers_keep_names_and_numbers(make_model: Any, make_encoder: Any, comparisons: Any) -> None:
    """The backend ``eager`` traces as ``inductor`` does, and generates no code, which takes minutes."""
    encoder, packing = make_encoder("scalar"), Packing(8192)
    batch = packing.collate([encoder.encode(row, "ab") for row in comparisons])
    model = make_model("scalar").train()
    names, plain = list(model.state_dict()), outcome(model, batch)
    compile_layers(model.backbone, CPU, backend="eager")
    assert list(model.state_dict()) == names
    assert_same(outcome(model, batch), plain)


def test_a_machine_that_cannot_compile_says_so(make_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no compiler here\nand a long story")

    monkeypatch.setattr("torch.compile", broken)
    with pytest.raises(ValueError, match=r"trainer\.compile=true: cannot compile for cpu \(no compiler here\); use fa"):
        compile_layers(make_model("scalar").backbone, CPU)


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
