"""Backbones: what does not fit or would be pooled wrongly is an error, what is cut, adapted, drawn."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel

from crm.model.backbone import (
    add_lora,
    build_tiny_backbone,
    keep_lowest_layers,
    load_backbone,
    merge_lora,
    train_tokenizer,
)
from crm.model.batching.batches import collate
from crm.model.export import export_model, load_checkpoint
from crm.model.reward_model import RewardModel
from tests.conftest import rounding


@pytest.fixture(scope="module")
def folder(make_model, tokenizer, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("backbone")
    make_model("scalar").backbone.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture()
def editable(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "edited"))


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_weights_come_as_float32_and_padding_is_settled(folder: Path, make_model, tokenizer) -> None:
    model, loaded = load_backbone(str(folder), None)
    expected = make_model("scalar").backbone.state_dict()
    assert json.loads((folder / "config.json").read_text())["dtype"] == "bfloat16"
    for name, weight in model.state_dict().items():
        assert weight.dtype == torch.float32 and torch.equal(weight, expected[name].bfloat16().float())
    assert model.config.pad_token_id == loaded.pad_token_id == tokenizer.pad_token_id != loaded.eos_token_id
    assert loaded.padding_side == "right" and model.config.use_cache is False


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        ("tokenizer_config.json", {"pad_token": "<|endoftext|>"}, "pooling would read the wrong token"),
        ("tokenizer_config.json", {"pad_token": None}, "pooling would read the wrong token"),
        ("config.json", {"num_hidden_layers": 3, "layer_types": ["full_attention"] * 3}, "weights for layers.2"),
        ("model.safetensors", None, "cannot be loaded .*model=tiny"),
    ],
)
def test_files_that_do_not_fit_are_one_sentence(editable: Path, file: str, changes: Any, message: str) -> None:
    if changes is None:
        (editable / file).unlink()
    else:
        edit(editable / file, **changes)
    with pytest.raises(ValueError, match=rf"^model.path={editable}: .*{message}") as caught:
        load_backbone(str(editable), None)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("head", "architecture"), [("scalar", "qwen3"), ("late", "llama")])
def test_the_lowest_layers_alone_are_a_model_that_transformers_loads(
    make_model, make_encoder, comparisons, tokenizer, tmp_path, head: str, architecture: str
) -> None:
    """Second route: the states below the second layer of the whole model, and its norm."""
    whole, cut = make_model(head, architecture), make_model(head, architecture)
    keep_lowest_layers(cut.backbone, 1)
    model = RewardModel(cut.backbone, cut.score, head).eval()
    batch = collate([make_encoder(head).encode(row) for row in comparisons], pad_id=0)
    inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
    whole.backbone.layers[1].forward = lambda states, **_: states
    with torch.no_grad():
        expected, got = whole.backbone(**inputs).last_hidden_state, model.backbone(**inputs).last_hidden_state
        assert torch.equal(got, expected)
        logits = model(batch).preference_logit
        export_model(model, tokenizer, tmp_path, {})
        again = load_checkpoint(tmp_path)[0](batch).preference_logit
    torch.testing.assert_close(again, logits, rtol=0, atol=rounding(logits))
    stock = AutoModel.from_pretrained(tmp_path)
    assert stock.config.num_hidden_layers == len(stock.layers) == 1


@pytest.mark.parametrize("layers", [0, 3])
def test_layers_that_are_not_there_are_an_error(tokenizer, layers: int) -> None:
    model = build_tiny_backbone(len(tokenizer), 16, 2, 2, 64, 0, seed=0)
    with pytest.raises(ValueError, match=rf"model.use_layers={layers}: the backbone has 2 layers; use 1 to 2"):
        keep_lowest_layers(model, layers)
    keep_lowest_layers(model, None)
    assert len(model.layers) == 2


def test_lora_starts_as_identity_trains_little_and_merges_whole(
    make_model, make_encoder, comparisons, tokenizer, tmp_path
) -> None:
    pytest.importorskip("peft")
    plain = make_model("pairwise_span")
    assert merge_lora(plain.backbone) is plain.backbone
    batch = collate([make_encoder("pairwise_span").encode(row) for row in comparisons], pad_id=0)
    with torch.no_grad():
        before = plain(batch).preference_logit
    adapted = RewardModel(add_lora(plain.backbone, rank=2, alpha=4), plain.score, plain.head).eval()
    assert torch.equal(adapted(batch).preference_logit, before), "new adapters change nothing"
    trained = {name for name, weight in adapted.named_parameters() if weight.requires_grad}
    assert all("lora_" in name or name == "score.weight" for name in trained) and "score.weight" in trained
    assert len(trained) == 1 + 2 * 2 * 7, "two matrices for each of seven linear layers in each of two layers"
    adapted_layers = {name.partition(".lora_")[0].rpartition(".")[2] for name in trained - {"score.weight"}}
    assert adapted_layers == {f"{name}_proj" for name in ("q", "k", "v", "o", "gate", "up", "down")}
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if name in trained:
                weight += 0.05 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(len(name)))
        after = adapted(batch).preference_logit
    assert (after - before).abs().min() > 1e-3
    export_model(RewardModel(merge_lora(adapted.backbone), adapted.score, adapted.head), tokenizer, tmp_path, {})
    assert not (tmp_path / "adapter_config.json").exists()
    with torch.no_grad():
        exported = load_checkpoint(tmp_path)[0](batch).preference_logit
    torch.testing.assert_close(exported, after, rtol=0, atol=rounding(after))


def test_tiny_depends_on_its_seed_alone_and_leaves_torchs_state(tokenizer) -> None:
    torch.manual_seed(1)
    drawn = torch.rand(1)
    torch.manual_seed(1)
    first, again, other = (
        build_tiny_backbone(len(tokenizer), 16, 2, 2, 64, 0, seed).state_dict() for seed in (5, 5, 6)
    )
    assert torch.equal(torch.rand(1), drawn)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["embed_tokens.weight"], other["embed_tokens.weight"])


def test_the_tiny_tokenizer_knows_any_text_and_is_deterministic() -> None:
    texts = ["the rain in Spain", "the plain"] * 5
    tokenizer, again = (train_tokenizer(texts, 280) for _ in range(2))
    assert tokenizer.get_vocab() == again.get_vocab() and len(tokenizer) <= 280
    for text in ("the rain", "東京 🙂 \u2028 \x01", "<|im_end|> is text"):
        ids = tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
        assert tokenizer.decode(ids) == text
    assert len(tokenizer.encode("the rain", add_special_tokens=False)) < len("the rain"), "it has merges"
    assert tokenizer.pad_token_id != tokenizer.eos_token_id
