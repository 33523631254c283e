"""Compiled layers and checkpointing leave names and numbers alone; in float32, as a compiler traces `in_float64`."""

from random import Random
from typing import Any

import pytest
import torch

from crm.model.backbone import freeze_lower_layers
from crm.model.batching.plans import Layout, Packing, Padding
from crm.training.devices import compile_layers, enable_checkpointing
from tests.model.helpers import assert_same, outcome

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
    compile_layers(model.backbone, CPU, backend=counting)
    after = []
    for _ in range(50):
        batch = layout.collate(rng.sample(encoded, rng.randint(1, 4)))
        outcome(model, batch)
        shapes.add(tuple(batch.input_ids.shape))
        after.append(len(graphs))
    assert len(shapes) > 3 and after[0] > 1, "the probe and the layers"
    assert len(set(after)) - 1 <= 2, "packs after the first at which something was compiled"


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
