"""Responses read by fewer layers than criteria: stock transformers' hidden states, and kept ones, say the same."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from crm.model.attention.frozen_layers import (
    FrozenLayers,
    FrozenStates,
    TwoDepths,
    ends_in,
    freeze_lower_layers,
    nodes_of,
)
from crm.model.batching.batches import collate, collate_forest
from tests.conftest import rounding


@pytest.fixture(params=["padded", "forest"])
def batch(request, make_encoder, comparisons) -> Any:
    rows = [make_encoder("late").encode(row) for row in comparisons]
    return collate(rows, pad_id=0) if request.param == "padded" else collate_forest(rows)


def of_texts(states: torch.Tensor, groups: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([states[group[group >= 0]] for group in groups])


def test_states_are_those_that_stock_transformers_gives_after_each_layer(make_model, make_encoder, comparisons) -> None:
    model = make_model("late", "llama-1")
    rows = [make_encoder("late").encode(row) for row in comparisons]
    padded, forest = collate(rows, pad_id=0), collate_forest(rows)
    with torch.no_grad():
        inputs = {"input_ids": padded.input_ids, "attention_mask": padded.attention_mask}
        stock = model.backbone(**inputs, output_hidden_states=True).hidden_states
        for batch in (padded, forest):
            found = model.depths.run(batch)
            for states, layer, kind in zip(found, stock[1:], ("responses", "criteria"), strict=True):
                expected = of_texts(layer.flatten(0, 1), getattr(padded.texts, kind))
                ours = of_texts(states, getattr(batch.texts, kind))
                torch.testing.assert_close(ours, expected, rtol=0, atol=rounding(expected))
            assert not of_texts(found[1], batch.texts.responses).any(), "layers above are not run for responses"


def test_what_is_kept_is_what_is_computed(make_model, batch: Any) -> None:
    model = make_model("late", "qwen3-1")
    freeze_lower_layers(model.backbone, 2)
    with torch.no_grad():
        expected = model(batch).scores
    kept = [FrozenStates(16, budget=10**7) for _ in range(2)]
    model.depths.kept = tuple(
        FrozenLayers(model.backbone, layers, states, whole=True) for layers, states in zip((1, 2), kept, strict=True)
    )
    computed = []
    for _ in range(2):
        with torch.no_grad():
            scores = model(batch).scores
        torch.testing.assert_close(scores, expected, rtol=0, atol=rounding(expected))
        computed.append([part.counts.computed for part in model.keeping])
    assert computed[0] == computed[1] and all(computed[0]), "the second time nothing is run"
    model.keep_nothing()
    assert model.keeping == ()


def test_only_the_texts_asked_for_are_run(make_model, batch: Any) -> None:
    model = make_model("late", "qwen3-1")
    freeze_lower_layers(model.backbone, 2)
    part = FrozenLayers(model.backbone, 1, FrozenStates(16, budget=10**7))
    nodes = nodes_of(batch)
    whole = copy.copy(part)
    whole.kept = FrozenStates(16, budget=10**7)
    asked = part.states(batch, ends_in(nodes, batch.texts.responses)).flatten(0, 1)
    everything = whole.states(batch).flatten(0, 1)
    same = of_texts(everything, batch.texts.responses)
    torch.testing.assert_close(of_texts(asked, batch.texts.responses), same, rtol=0, atol=rounding(same))
    assert not of_texts(asked, batch.texts.criteria).any() and of_texts(everything, batch.texts.criteria).any()


@pytest.mark.parametrize("layers", [0, 2, 9])
def test_some_layers_are_left_for_criteria(layers: int, make_model) -> None:
    with pytest.raises(ValueError, match=rf"head.response_layers={layers}: the backbone has 2 layers; use 1 to 1"):
        TwoDepths(make_model("late").backbone, layers)
