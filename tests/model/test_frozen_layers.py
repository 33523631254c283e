"""Frozen layers that are run once: the numbers of the plain run, and how often the layers are called."""

import copy
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import torch

from crm.model.attention.frozen_layers import FrozenLayers
from crm.model.backbone import add_lora, build_tiny_backbone, freeze_lower_layers, without_lora_wrapper
from crm.model.batching.batches import ROW_STEP, collate, collate_forest
from crm.model.reward_model import RewardModel, build_score
from tests.conftest import rounding
from tests.model.helpers import assert_same, outcome

LOWER, MUCH, ROOM = 2, 10**7, 30_000


@pytest.fixture
def make_deep(tokenizer) -> Callable[..., RewardModel]:
    """Four layers, the lowest two frozen; random throughout."""

    def make(head: str = "scalar", rank: int = 0, dropout: float = 0.0) -> RewardModel:
        backbone: Any = build_tiny_backbone(len(tokenizer), 16, 4, 2, 2048, tokenizer.pad_token_id, 0)
        torch.manual_seed(1)
        for layer in backbone.layers:
            for module in (layer.self_attn.o_proj, layer.mlp.down_proj):
                torch.nn.init.normal_(module.weight, std=0.1)
            layer.self_attn.attention_dropout = dropout
        freeze_lower_layers(backbone, LOWER)
        if rank:
            backbone = add_lora(backbone, rank, 4, above=LOWER)
            for name, weight in backbone.named_parameters():
                if "lora_B" in name:
                    torch.nn.init.normal_(weight, std=0.1)
        return RewardModel(backbone, build_score(head, 16, 0), head).eval()  # type: ignore[arg-type]

    return make


def keeping(model: RewardModel, **settings: Any) -> RewardModel:
    """The same weights, with the states of the lowest layers stored."""
    model = copy.deepcopy(model)
    model.frozen = FrozenLayers(without_lora_wrapper(model.backbone), LOWER, **{"budget": MUCH, **settings})
    return model


@contextmanager
def calls_of(model: RewardModel, layer: int) -> Iterator[list[int]]:
    """Tokens of each call of a layer."""
    seen: list[int] = []
    watched = without_lora_wrapper(model.backbone).layers[layer]
    hook = watched.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape[:2].numel()))
    yield seen
    hook.remove()


@pytest.fixture
def batches(make_encoder, comparisons) -> Callable[..., list[Any]]:
    """Batches cut differently, with beginnings in common within and across them."""

    def make(head: str = "scalar", kind: str = "forest") -> list[Any]:
        rows = [*comparisons, *(replace(row, criteria=(*row.criteria, "And rhymes")) for row in comparisons[:3])]
        encoded = [make_encoder(head).encode(row, "ab") for row in rows]
        parts = (encoded[:3], encoded[3:], encoded[1:7])
        return [collate(part, pad_id=0) if kind == "padded" else collate_forest(part) for part in parts]

    return make


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize(("head", "kind", "prunes"), [("scalar", "forest", True), ("pairwise_span", "padded", False)])
def test_logits_and_gradients_are_those_of_the_plain_run(head, kind, prunes, make_deep, batches) -> None:
    plain = make_deep(head)
    plain.prunes = prunes
    model = keeping(plain)
    for batch in (*batches(head, kind), *batches(head, "forest")):
        assert_same(outcome(model, batch), outcome(plain, batch))


@pytest.mark.parametrize("kind", ["forest", "padded"])
def test_a_second_epoch_runs_no_frozen_layer(kind, make_deep, batches) -> None:
    model = keeping(make_deep())
    first, second, others = batches(kind=kind)
    with calls_of(model, 0) as lower, calls_of(model, LOWER) as upper:
        for batch in (first, second, others, second, first):
            model(batch)
    assert len(lower) == 2 and len(upper) == 5


@pytest.mark.usefixtures("in_float64")
def test_without_room_states_are_computed_again_and_reported_once(make_deep, batches, caplog) -> None:
    plain = make_deep()
    model = keeping(plain, budget=ROOM)
    with caplog.at_level(logging.WARNING):
        for batch in batches() * 2:
            assert_same(outcome(model, batch), outcome(plain, batch))
    assert 0 < len(model.frozen.stored) < 20 and 0 <= model.frozen.room < ROOM
    assert [record.message.partition(" with ")[0] for record in caplog.records] == ["frozen layers: the room is full"]


def test_bfloat16_rounds_the_first_time_as_every_time(make_deep, batches) -> None:
    plain, batch = make_deep(), batches()[0]
    model = keeping(plain, dtype=torch.bfloat16)
    first, second = outcome(model, batch), outcome(model, batch)
    assert torch.equal(first[0], second[0])
    assert 1e-6 < (first[0] - outcome(plain, batch)[0]).abs().max() < 3e-2


def test_training_after_validation_with_checkpointing(make_deep, batches) -> None:
    """Lightning validates in inference mode, whose tensors training may not touch."""
    plain, batch = make_deep().train(), batches()[0]
    model = keeping(plain)
    for one in (plain, model):
        one.backbone.gradient_checkpointing_enable({"use_reentrant": False})
    with torch.inference_mode():
        model(batches()[1])
    assert_same(outcome(model, batch), outcome(plain, batch))


@pytest.mark.usefixtures("in_float64")
def test_adapters_are_put_above_the_frozen_layers_only(make_deep, batches) -> None:
    pytest.importorskip("peft")
    plain = make_deep(rank=2)
    assert {name.split("layers.")[1][0] for name, p in plain.named_parameters() if "lora" in name} == {"2", "3"}
    model, batch = keeping(plain), batches()[0]
    assert_same(outcome(model, batch), outcome(plain, batch))
    with pytest.raises(ValueError, match=r"model.freeze_layers=4 with model.lora_rank=2: no layer is left"):
        add_lora(make_deep().backbone, 2, 4, above=4)


@pytest.mark.usefixtures("in_float64")
def test_dropout_is_left_out_below(make_deep, batches) -> None:
    model, batch = keeping(make_deep(dropout=0.5)).train(), batches()[0]
    first, second = (one.frozen.states(batch) for one in (model, keeping(make_deep(dropout=0.0))))
    torch.testing.assert_close(first, second, rtol=0, atol=rounding(second))


@pytest.mark.parametrize("layers", [0, 1, 2])
def test_freezing_stops_exactly_the_lowest_layers(tokenizer, layers: int) -> None:
    model = build_tiny_backbone(len(tokenizer), 16, 2, 2, 64, 0, seed=0)
    freeze_lower_layers(model, layers)
    frozen = {name for name, weight in model.named_parameters() if not weight.requires_grad}
    lowest = (*(f"layers.{index}." for index in range(layers)), "embed_tokens.weight")
    expected = {name for name, _ in model.named_parameters() if name.startswith(lowest)}
    assert frozen == {0: set(), 1: expected, 2: expected | {"norm.weight"}}[layers]
    with pytest.raises(ValueError, match=r"model.freeze_layers=3: the backbone has 2 layers"):
        freeze_lower_layers(model, 3)


def test_a_head_that_reads_every_token_may_keep_the_whole_backbone(make_model, make_encoder, comparisons) -> None:
    model, encoder = make_model("late"), make_encoder("late")
    freeze_lower_layers(model.backbone, 2)
    batch = collate_forest([encoder.encode(row) for row in comparisons])
    expected = model(batch).scores
    model.frozen = FrozenLayers(model.backbone, 2, budget=MUCH)
    with calls_of(model, 0) as lower:
        for _ in range(2):
            scores = model(batch).scores
            torch.testing.assert_close(scores, expected, rtol=0, atol=rounding(expected))
    scores.sum().backward()
    assert lower == [-(-batch.tokens // ROW_STEP) * ROW_STEP], "read once"
