"""Qwen3 0.6B to 8B without weights, from their published configurations: what a GPU would be given."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification
from transformers.models.qwen3.modeling_qwen3 import Qwen3ForCausalLM

from bench.memory_table import fake_processes
from bench.models import QWEN3
from crm.model.backbone import empty_backbone
from crm.model.export import to_hugging_face
from crm.model.reward_model import RewardModel, build_score
from crm.training.devices import wrap
from tests.model.helpers import KEY_HEADS, PUBLISHED, SIZE, VOCABULARY, qwen3

STOCK = {"scalar": AutoModelForSequenceClassification, "pairwise_span": AutoModelForTokenClassification}
ENDS = pytest.mark.parametrize("size", ["0.6B", "8B"], indirect=True)
"""The smallest, whose embeddings are tied, and the largest, whose embeddings are not."""


@pytest.fixture(params=PUBLISHED)
def size(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def backbone(size: str, tmp_path: Path) -> Any:
    *shape, tied, _ = PUBLISHED[size]
    config = qwen3(*shape, vocab_size=VOCABULARY, tie_word_embeddings=tied, max_position_embeddings=40_960)
    config.architectures = ["Qwen3ForCausalLM"]
    config.save_pretrained(tmp_path)
    return empty_backbone(str(tmp_path), None)


def shapes(size: str) -> list[tuple[int, int]]:
    """Width of what goes into a layer's seven projections, and of what comes out."""
    hidden, inner, heads, *_ = PUBLISHED[size]
    queries, keys = heads * SIZE, KEY_HEADS * SIZE
    attention = [(hidden, queries), (hidden, keys), (hidden, keys), (queries, hidden)]
    return [*attention, (hidden, inner), (hidden, inner), (inner, hidden)]


def test_parameters_and_tied_embeddings(size: str, backbone: Any) -> None:
    """By hand, and the published total: a reward model has no output embedding, tied or not."""
    hidden, inner, heads, layers, tied, published = PUBLISHED[size]
    layer = sum(a * b for a, b in shapes(size)) + 2 * hidden + 2 * SIZE
    expected = layers * layer + VOCABULARY * hidden + hidden
    assert expected == published - (0 if tied else VOCABULARY * hidden)
    assert sum(p.numel() for p in backbone.parameters()) == expected
    assert all(p.device.type == "meta" for p in backbone.parameters())
    with torch.device("meta"):
        language_model = Qwen3ForCausalLM(backbone.config)
    assert (language_model.lm_head.weight is language_model.model.embed_tokens.weight) == tied
    assert sum(p.numel() for p in language_model.parameters()) == published
    ours = QWEN3[size]
    benched = (ours.hidden, ours.intermediate, ours.heads, ours.layers, ours.tied, ours.vocabulary, ours.head_dim)
    assert benched == (hidden, inner, heads, layers, tied, VOCABULARY, SIZE)


@ENDS
@pytest.mark.parametrize("head", STOCK)
def test_exported_names_are_those_of_stock_classes(head: str, backbone: Any) -> None:
    exported = to_hugging_face(RewardModel(backbone, build_score(head, backbone.config.hidden_size, 0), head))
    with torch.device("meta"):
        stock = STOCK[head].from_config(exported.config)
        language_model = Qwen3ForCausalLM(backbone.config)
    found = {name: weight.shape for name, weight in exported.state_dict().items()}
    assert found == {name: weight.shape for name, weight in stock.state_dict().items()}
    of_the_hub = {name for name in language_model.state_dict() if name != "lm_head.weight"}
    assert {name for name in found if not name.startswith("score.")} == of_the_hub


@ENDS
def test_fsdp2_shards_every_weight_once_layer_by_layer(size: str, backbone: Any) -> None:
    model = RewardModel(backbone, build_score("scalar", backbone.config.hidden_size, 0).to("meta"), "scalar")
    whole = {name: p.shape for name, p in model.named_parameters()}
    with fake_processes(8):
        wrap(model, init_device_mesh("cpu", (8,)), torch.bfloat16)
        units = [name for name, module in model.named_modules() if isinstance(module, FSDPModule)]
        assert sorted(units) == sorted(["", "backbone", *(f"backbone.layers.{i}" for i in range(PUBLISHED[size][3]))])
        local = {name: p.to_local().shape for name, p in model.named_parameters()}  # type: ignore[attr-defined]
    assert local.keys() == whole.keys()
    for name, shape in whole.items():
        rows = 1 if shape[0] == 1 else shape[0] // 8  # the head has one row, which the first process holds
        assert local[name] == (rows, *shape[1:]), name
