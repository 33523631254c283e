"""A late head's folder: stock transformers loads its backbone, the head lies beside it; what is damaged is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel

from crm.model.batching.batches import collate
from crm.model.export import LATE_HEAD, export_as_single_label, export_model, load_checkpoint
from crm.model.manifest import MANIFEST, read_manifest, sha256, write_manifest
from crm.model.reward_model import RewardModel, build_score
from tests.conftest import rounding


@pytest.fixture(scope="module", params=["qwen3", "llama", "llama-1", "llama-1-gated"])
def exported(request, make_model, tokenizer, tmp_path_factory) -> tuple[RewardModel, Path]:
    model, folder = make_model("late", request.param, seed=4), tmp_path_factory.mktemp("late")
    export_model(model, tokenizer, folder, {"max_length": 2048})
    return model, folder


@pytest.fixture()
def damaged(exported, tmp_path: Path) -> Path:
    return Path(shutil.copytree(exported[1], tmp_path / "copy"))


@pytest.fixture()
def scores(make_encoder, comparisons) -> Any:
    batch = collate([make_encoder("late").encode(row) for row in comparisons], pad_id=0)

    def read(model: RewardModel) -> torch.Tensor:
        with torch.no_grad():
            return model(batch).scores

    return read


def save_head(folder: Path, weights: dict[str, torch.Tensor]) -> None:
    """Put a head there, and a manifest that is right about it."""
    save_file(weights, folder / LATE_HEAD)
    write_manifest(folder, "late", "criteria_first", {"max_length": 2048})


def test_what_is_loaded_is_what_was_exported(exported, scores, tokenizer, tmp_path: Path) -> None:
    model, folder = exported
    loaded, _, manifest = load_checkpoint(folder)
    assert manifest["head"] == loaded.head == "late" and not loaded.training
    for name, weight in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], weight), name
    # The tiny model's attention is another kernel's than that of a loaded one.
    torch.testing.assert_close(scores(loaded), scores(model), rtol=0, atol=rounding(scores(model)))
    digest = export_model(loaded, tokenizer, tmp_path, {"max_length": 2048})
    assert digest == manifest["digest"]
    assert torch.equal(scores(load_checkpoint(tmp_path)[0]), scores(loaded))


def test_stock_transformers_loads_the_backbone(exported, make_encoder, comparisons) -> None:
    model, folder = exported
    stock, info = AutoModel.from_pretrained(folder, output_loading_info=True)
    assert not any(info.values()) and type(stock) is type(model.backbone)
    batch = collate([make_encoder("late").encode(row) for row in comparisons], pad_id=0)
    inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
    with torch.no_grad():
        ours, theirs = (one(**inputs).last_hidden_state for one in (model.backbone, stock.eval()))
    there = batch.attention_mask.bool()
    torch.testing.assert_close(theirs[there], ours[there], rtol=0, atol=rounding(ours[there]))


def test_the_head_has_a_digest_and_rights_like_its_neighbours(exported) -> None:
    folder = exported[1]
    assert read_manifest(folder)["files"][LATE_HEAD] == sha256(folder / LATE_HEAD)
    assert (folder / LATE_HEAD).stat().st_mode == (folder / "config.json").stat().st_mode
    assert json.loads((folder / MANIFEST).read_text())["head"] == "late"


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_a_damaged_head_is_named(damaged: Path, damage: str) -> None:
    content = bytearray((damaged / LATE_HEAD).read_bytes())
    content[len(content) // 2] ^= 1
    (damaged / LATE_HEAD).write_bytes(content if damage == "flip" else content[:-1])
    if damage == "remove":
        (damaged / LATE_HEAD).unlink()
    with pytest.raises(ValueError, match=f"{LATE_HEAD} is missing or damaged.*copy it again"):
        load_checkpoint(damaged)


def test_a_head_that_does_not_fit_is_one_sentence_that_says_what_to_do(damaged: Path) -> None:
    """A manifest that is whole, over a head that is not, or not this backbone's."""
    whole = load_file(damaged / LATE_HEAD)
    lacking = {name: weight for name, weight in whole.items() if name != "response.outer.bias"}
    cases = (
        (build_score("late", 8, seed=0).state_dict(), "reads states of 8 numbers, the backbone beside it has 16"),
        (lacking, "do not fit"),
        (whole | {"criterion.outer.weight": torch.zeros(3, 3)}, "do not fit"),
        (whole | {"response.values": torch.zeros(3)}, "do not fit"),
        ({"score.weight": torch.zeros(1, 16)}, "reads states of 0 numbers"),
    )
    for weights, reason in cases:
        save_head(damaged, weights)
        with pytest.raises(ValueError, match=rf"{LATE_HEAD} is no head of this backbone .*{reason}") as refused:
            load_checkpoint(damaged)
        assert "copy the folder again, or export the model anew" in str(refused.value)
        assert "\n" not in str(refused.value)


def test_weights_that_are_not_finite_are_not_exported(make_model, tokenizer, tmp_path: Path) -> None:
    model = make_model("late")
    with torch.no_grad():
        model.score.response.values[0, 0, 0] = float("nan")
    with pytest.raises(ValueError, match=r"response\.values holds NaN"):
        export_model(model, tokenizer, tmp_path / "model", {})
    assert not (tmp_path / "model").exists()


def test_there_are_no_two_logits_to_subtract(make_model, tokenizer, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="head=late: only the pairwise head has two logits"):
        export_as_single_label(make_model("late"), tokenizer, tmp_path, {})
