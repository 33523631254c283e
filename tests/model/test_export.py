"""Model folders: stock transformers loads them offline and gets our numbers; what does not fit is one sentence."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer

from crm.model.batching.batches import collate
from crm.model.encoding import token_ids
from crm.model.export import LATE_HEAD, export_model, load_checkpoint
from crm.model.manifest import MANIFEST, VERSION, read_manifest
from crm.model.reward_model import RewardModel, build_score
from tests.conftest import rounding
from tests.model.helpers import conversations

FACTS = {"max_length": 2048, "seed": 3, "commit": "abc"}
WAYS = (("scalar", "qwen3"), ("pairwise", "llama"), ("pairwise_span", "llama"))


@pytest.fixture(scope="module")
def clean(comparisons):
    """Comparisons without control tokens in their text: a template renders text, and cannot tell these apart."""
    return [row for row in comparisons if "<|im_end|>" not in str(row)]


@pytest.fixture(scope="module", params=WAYS, ids="-".join)
def exported(request, make_model, tokenizer, tmp_path_factory) -> tuple[RewardModel, Path]:
    head, architecture = request.param
    model = make_model(head, architecture, seed=4)
    if head == "pairwise_span":  # as after training: the two rows have parted
        torch.nn.init.normal_(model.score.weight, generator=torch.Generator().manual_seed(1))
    folder = tmp_path_factory.mktemp("model")
    export_model(model, tokenizer, folder, FACTS)
    return model, folder


@pytest.fixture(scope="module", params=["qwen3", "llama"])
def late(request, make_model, tokenizer, tmp_path_factory) -> tuple[RewardModel, Path]:
    model, folder = make_model("late", request.param, seed=4), tmp_path_factory.mktemp("late")
    export_model(model, tokenizer, folder, FACTS)
    return model, folder


@pytest.fixture(scope="module")
def folder(make_model, tokenizer, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("scalar")
    export_model(make_model("scalar"), tokenizer, folder, FACTS)
    return folder


def ours(model: RewardModel, encoder: Any, rows: list[Any]) -> Any:
    with torch.no_grad():
        return model(collate([encoder.encode(row) for row in rows], pad_id=0))


def test_stock_transformers_gets_our_ids(exported, make_encoder, clean) -> None:
    """And our logits, by the lines of the card: see `test_model_card.py`."""
    model, folder = exported
    encoder, tokenizer = make_encoder(model.head), AutoTokenizer.from_pretrained(folder)
    sequences = [sequence for row in clean for sequence in encoder.encode(row).sequences]
    ids = [list(token_ids(sequence)) for sequence in sequences]
    turns = [one for row in clean for one in conversations(row, model.head)]
    texts = [tokenizer.apply_chat_template(one, tokenize=False) for one in turns]
    assert tokenizer(texts, add_special_tokens=False)["input_ids"] == ids
    # Trainers append the end of text where it is missing (OpenRLHF's data set for reward models, for one).
    end = tokenizer.eos_token
    ended = [text if text.rstrip("\n").endswith(end) else f"{text} {end}" for text in texts]
    assert tokenizer(ended)["input_ids"] == tokenizer(texts)["input_ids"] and end == "<|im_end|>"
    assert tokenizer.model_max_length == FACTS["max_length"] and tokenizer.pad_token != end


def test_the_config_holds_what_other_tools_ask(exported, tokenizer) -> None:
    model, folder = exported
    config = json.loads((folder / "config.json").read_text())
    assert config["pad_token_id"] == tokenizer.pad_token_id != tokenizer.eos_token_id
    kind = "ForTokenClassification" if model.head == "pairwise_span" else "ForSequenceClassification"
    assert len(config["architectures"]) == 1 and config["architectures"][0].endswith(kind)
    labels = {"0": "reward"} if model.head == "scalar" else {"0": "model_a", "1": "model_b"}
    assert config["id2label"] == labels and config["label2id"] == {name: int(key) for key, name in labels.items()}
    assert config.get("problem_type") == (None if model.head == "pairwise" else "regression")
    assert config["dtype"] == "float32" and "auto_map" not in config
    names = {path.name for path in folder.iterdir()}
    assert "model.safetensors" in names and "chat_template.jinja" in names
    assert not [name for name in names if name.endswith((".bin", ".pkl", ".pt", ".pth", ".py", ".tmp"))]
    modes = {path.name: path.stat().st_mode for path in folder.iterdir()}
    assert modes["model.safetensors"] == modes["config.json"], "who may read the settings may read the weights"


def test_a_round_trip_is_exact(exported, make_encoder, comparisons) -> None:
    model, folder = exported
    loaded, tokenizer, manifest = load_checkpoint(folder)
    assert loaded.head == model.head and not loaded.training
    expected = {name: weight for name, weight in model.state_dict().items() if not name.endswith("bias")}
    assert loaded.state_dict().keys() == expected.keys()
    assert all(torch.equal(weight, expected[name]) for name, weight in loaded.state_dict().items())
    assert {key: manifest[key] for key in FACTS} == FACTS
    encoder = make_encoder(model.head)
    assert tokenizer.get_vocab() == encoder.tokenizer.get_vocab()
    found, expected = (ours(one, encoder, comparisons).preference_logit for one in (loaded, model))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_a_late_model_comes_back_and_stock_transformers_loads_its_backbone(late, make_encoder, comparisons) -> None:
    model, folder = late
    loaded, _, manifest = load_checkpoint(folder)
    assert manifest["head"] == loaded.head == "late"
    for name, weight in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], weight), name
    encoder = make_encoder("late")
    expected = ours(model, encoder, comparisons).scores
    # The tiny model's attention is another kernel's than that of a loaded one.
    torch.testing.assert_close(ours(loaded, encoder, comparisons).scores, expected, rtol=0, atol=rounding(expected))
    backbone, info = AutoModel.from_pretrained(folder, output_loading_info=True)
    assert not any(info.values()) and type(backbone) is type(model.backbone)


def test_the_digest_follows_the_weights_and_facts_cannot_overrule_it(make_model, tokenizer, folder, tmp_path) -> None:
    facts = {"head": "pairwise", "digest": "0", "version": 9, "seed": 5}
    again = export_model(make_model("scalar"), tokenizer, tmp_path / "again", facts)
    assert again == read_manifest(folder)["digest"]
    assert again != export_model(make_model("scalar", seed=1), tokenizer, tmp_path / "other", {})
    ours = {"digest": again, "head": "scalar", "version": VERSION, "seed": 5}
    assert read_manifest(tmp_path / "again") == ours


def test_a_wrong_manifest_is_named(folder: Path, tmp_path: Path) -> None:
    damaged = Path(shutil.copytree(folder, tmp_path / "copy"))
    path = damaged / MANIFEST
    whole = path.read_text()
    manifest = json.loads(whole)
    for text, message in (
        (whole[:-5], "crm.json cannot be used"),
        (json.dumps(manifest | {"version": 3}), "version 3, this release reads 4; export the model again"),
        (json.dumps(manifest | {"head": "other"}), "expected one of scalar, late"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=f"^checkpoint={damaged}: .*{message}"):
            load_checkpoint(damaged)
    path.unlink()
    with pytest.raises(ValueError, match=r"no crm\.json there: not a model of train"):
        load_checkpoint(damaged)


def test_weights_that_cannot_be_read_or_do_not_fit_are_one_sentence(late, folder: Path, tmp_path: Path) -> None:
    plain, apart = (Path(shutil.copytree(one, tmp_path / name)) for name, one in (("a", folder), ("b", late[1])))
    weights, head = load_file(plain / "model.safetensors"), load_file(apart / LATE_HEAD)
    cases = (
        (plain / "model.safetensors", {"score.weight": torch.zeros(1, 16)}, "no fitting weights for "),
        (plain / "model.safetensors", weights | {"score.weight": torch.zeros(1, 8)}, ""),
        (apart / LATE_HEAD, build_score("late", 8, seed=0).state_dict(), "size mismatch for response"),
        (apart / LATE_HEAD, head | {"response.values": torch.zeros(3)}, "not enough values"),
    )
    for path, changed, reason in cases:
        save_file(changed, path, metadata={"format": "pt"})
        with pytest.raises(ValueError, match=rf"^checkpoint={path.parent}: cannot be loaded \(.*{reason}") as caught:
            load_checkpoint(path.parent)
        assert "copy the folder again, or export the model anew" in str(caught.value) and "\n" not in str(caught.value)
