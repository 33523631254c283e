"""Exported folders: stock transformers loads them offline and gets our numbers; damage is named at once."""

from __future__ import annotations

import json
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer

from crm.model.batching.batches import collate
from crm.model.encoding import pointwise_messages
from crm.model.export import export_as_single_label, export_model, load_checkpoint
from crm.model.heads import LINEAR_HEADS, PROMPT_ORDERS, PromptOrder
from crm.model.manifest import MANIFEST, read_manifest, sha256
from crm.model.manifest import _digest as digest_of
from crm.model.reward_model import RewardModel
from tests.model.messages import pairwise_messages

ROOT = Path(__file__).parents[2]
FACTS = {"max_length": 2048, "seed": 3, "commit": "abc"}


@pytest.fixture(scope="module")
def clean(comparisons):
    """Comparisons without control tokens in their text: a template renders text, and cannot tell these apart."""
    return [row for row in comparisons if "<|im_end|>" not in str(row)]


@pytest.fixture(scope="module", params=list(product(LINEAR_HEADS, ("qwen3", "llama"), PROMPT_ORDERS)), ids="-".join)
def exported(request, make_model, tokenizer, tmp_path_factory) -> tuple[RewardModel, Path, PromptOrder]:
    head, architecture, prompt_order = request.param
    model = make_model(head, architecture, seed=4)
    if head == "pairwise_span":  # as after training: the two rows have parted
        torch.nn.init.normal_(model.score.weight, generator=torch.Generator().manual_seed(1))
    folder = tmp_path_factory.mktemp("model")
    export_model(model, tokenizer, folder, FACTS, prompt_order)
    return model, folder, prompt_order


@pytest.fixture(scope="module")
def folder(make_model, tokenizer, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("scalar")
    export_model(make_model("scalar"), tokenizer, folder, FACTS)
    return folder


@pytest.fixture()
def damaged(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def ours(model: RewardModel, encoder: Any, rows: list[Any]) -> Any:
    with torch.no_grad():
        return model(collate([encoder.encode(row) for row in rows], pad_id=0))


def render(model: RewardModel, tokenizer: Any, rows: list[Any]) -> list[str]:
    texts = []
    for row in rows:
        if model.head == "scalar":
            turns = [pointwise_messages(row.criteria, row.prompt, side) for side in (row.response_a, row.response_b)]
        else:
            turns = [pairwise_messages(row.criteria, row.prompt, row.response_a, row.response_b)]
        texts += [tokenizer.apply_chat_template(one, tokenize=False) for one in turns]
    return texts


def stock(model: RewardModel, folder: Path, rows: list[Any], batch_size: int) -> torch.Tensor:
    """Preference logits with nothing but transformers and what the folder says."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    joint_ends, criteria_last = model.head == "pairwise_span", read_manifest(folder)["prompt_order"] == "criteria_last"
    auto = AutoModelForTokenClassification if joint_ends else AutoModelForSequenceClassification
    loaded = auto.from_pretrained(folder, dtype=torch.float32).eval()
    texts, outputs = render(model, tokenizer, rows), []
    for at in range(0, len(texts), batch_size):
        inputs = tokenizer(
            texts[at : at + batch_size],
            return_tensors="pt",
            padding=True,
            add_special_tokens=False,
            padding_side="right",
        )
        with torch.no_grad():
            logits = loaded(**inputs).logits
        if joint_ends:
            for ids, row_logits in zip(inputs["input_ids"], logits, strict=True):
                ends = (ids == tokenizer.convert_tokens_to_ids("<|im_end|>")).nonzero()[:, 0]
                followers = tokenizer.batch_decode([ids[end + 2 : end + 16] for end in ends])
                first = next(end for end, text in zip(ends, followers, strict=True) if "response_b" in text)
                if criteria_last:  # the last two turns are the marks, however many turns the responses have
                    first = ends[-2]
                outputs.append(row_logits[first, 0] - row_logits[ends[-1], 1])
        else:
            outputs += list(logits)
    if model.head == "scalar":
        return torch.cat(outputs[::2]) - torch.cat(outputs[1::2])
    stacked = torch.stack(outputs)
    return stacked if joint_ends else stacked[:, 0] - stacked[:, 1]


@pytest.mark.parametrize("batch_size", [1, 8])
def test_stock_transformers_gets_our_logits(exported, make_encoder, clean, batch_size) -> None:
    model, folder, order = exported
    expected = ours(model, make_encoder(model.head, order=order), clean).preference_logit
    assert expected.abs().min() > 1e-3
    torch.testing.assert_close(stock(model, folder, clean, batch_size), expected, atol=1e-5, rtol=0)


def test_the_config_says_what_other_tools_ask(exported, tokenizer) -> None:
    model, folder, _ = exported
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
    if model.head != "pairwise_span":
        loaded = AutoModelForSequenceClassification.from_pretrained(folder)
        assert loaded.score.bias is None and loaded.num_labels == len(labels)


def test_the_folder_renders_as_we_do(exported, make_encoder, clean) -> None:
    model, folder, order = exported
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = [
        [token for segment in sequence for token in segment.ids]
        for row in clean
        for sequence in make_encoder(model.head, order=order).encode(row).sequences
    ]
    assert tokenizer(render(model, tokenizer, clean), add_special_tokens=False)["input_ids"] == ids


def test_whoever_may_read_the_settings_may_read_the_weights(folder: Path) -> None:
    modes = {path.name: path.stat().st_mode for path in folder.iterdir()}
    assert modes["model.safetensors"] == modes["config.json"]


def test_a_round_trip_is_exact(exported, make_encoder, comparisons) -> None:
    model, folder, order = exported
    loaded, tokenizer, manifest = load_checkpoint(folder)
    assert loaded.head == model.head and not loaded.training
    expected = {name: weight for name, weight in model.state_dict().items() if not name.endswith("bias")}
    assert loaded.state_dict().keys() == expected.keys()
    assert all(torch.equal(weight, expected[name]) for name, weight in loaded.state_dict().items())
    assert {key: manifest[key] for key in FACTS} == FACTS and manifest["prompt_order"] == order
    assert tokenizer.get_vocab() == make_encoder(model.head).tokenizer.get_vocab()
    torch.testing.assert_close(
        ours(loaded, make_encoder(model.head), comparisons).preference_logit,
        ours(model, make_encoder(model.head), comparisons).preference_logit,
        atol=1e-5,
        rtol=0,
    )


def test_the_digest_follows_the_weights(make_model, tokenizer, folder, tmp_path) -> None:
    again = export_model(make_model("scalar"), tokenizer, tmp_path / "again", {})
    assert (
        again == read_manifest(folder)["digest"] != export_model(make_model("scalar", seed=1), tokenizer, tmp_path, {})
    )


def test_facts_cannot_overrule_the_manifest(make_model, tokenizer, tmp_path) -> None:
    facts = {"head": "pairwise", "digest": "0", "format": 9, "prompt_order": "criteria_last"}
    ours = {"digest": export_model(make_model("scalar"), tokenizer, tmp_path, facts), "head": "scalar", "format": 2}
    assert {**read_manifest(tmp_path), "files": 0}.items() >= {**ours, "prompt_order": "criteria_first"}.items()


@pytest.mark.parametrize("order", PROMPT_ORDERS)
def test_one_label_says_what_two_said(make_model, make_encoder, tokenizer, clean, tmp_path, order) -> None:
    model = make_model("pairwise", seed=7)
    export_as_single_label(model, tokenizer, tmp_path, FACTS, order)
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    inputs = tokenizer(render(model, AutoTokenizer.from_pretrained(tmp_path), clean), padding=True, return_tensors="pt")
    with torch.no_grad():
        probability = loaded(inputs["input_ids"], attention_mask=inputs["attention_mask"]).logits[:, 0].sigmoid()
        batch = collate([make_encoder("pairwise", order=order).encode(row) for row in clean], pad_id=0)
        hidden = model.backbone(batch.input_ids, attention_mask=batch.attention_mask).last_hidden_state
        two = model.score(hidden[batch.rows[:, 1], batch.positions[:, 1]]).softmax(dim=-1)
    torch.testing.assert_close(probability, two[:, 0], atol=1e-6, rtol=0)
    assert loaded.config.problem_type is None, "servers then apply the sigmoid that makes it a probability"
    assert loaded.config.id2label == {0: "model_a"}
    with pytest.raises(ValueError, match="a one-label copy for other tools"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize("head", ["scalar", "pairwise_span"])
def test_only_the_pairwise_head_has_two_logits_to_subtract(make_model, tokenizer, tmp_path, head) -> None:
    with pytest.raises(ValueError, match="only the pairwise head"):
        export_as_single_label(make_model(head), tokenizer, tmp_path, {})


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "chat_template.jinja"])
@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_a_damaged_file_is_named(damaged: Path, name: str, damage: str) -> None:
    content = bytearray((damaged / name).read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
    elif damage == "truncate":
        del content[-1]
    (damaged / name).write_bytes(content)
    if damage == "remove":
        (damaged / name).unlink()
    with pytest.raises(ValueError, match=f"{name} is missing or damaged"):
        load_checkpoint(damaged)


def test_a_wrong_manifest_is_named(damaged: Path) -> None:
    path = damaged / MANIFEST
    whole = path.read_text()
    manifest = json.loads(whole)
    cases = [
        (whole[:-5], "crm.json is damaged"),
        ("[]", r"has format \[\]"),
        (json.dumps(manifest | {"format": 3}), "has format 3, this version reads 2; train again"),
        (json.dumps(manifest | {"format": 1}), "has format 1, this version reads 2; train again"),
        (json.dumps(manifest | {"digest": "0" * 16}), "contradicts itself"),
        (json.dumps(manifest | {"head": "other"}), "its head is not known here"),
        (json.dumps(manifest | {"prompt_order": "middle"}), "prompt_order='middle': expected one of criteria_first"),
        (json.dumps({key: value for key, value in manifest.items() if key != "files"}), "contradicts itself"),
    ]
    for text, message in cases:
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            load_checkpoint(damaged)
    path.unlink()
    with pytest.raises(ValueError, match=r"no crm\.json there: not a model of train"):
        load_checkpoint(damaged)


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_not_exported(make_model, tokenizer, tmp_path, broken: float) -> None:
    model = make_model("scalar")
    with torch.no_grad():
        model.backbone.layers[1].mlp.up_proj.weight[0, 0] = broken
    with pytest.raises(ValueError, match=r"layers\.1\.mlp\.up_proj\.weight holds NaN or infinite weights"):
        export_model(model, tokenizer, tmp_path / "model", FACTS)
    assert not (tmp_path / "model").exists()


def with_end_of_text(text: str, end: str) -> str:
    """As trainers append it that want a text to end (OpenRLHF's data set for reward models, for one)."""
    text = text.rstrip("\n")
    return text if text.endswith(end) else f"{text} {end}"


def test_whoever_appends_the_end_of_text_reads_the_same_tokens(exported, clean) -> None:
    model, folder, _ = exported
    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts = render(model, tokenizer, clean)
    ended = [with_end_of_text(text, tokenizer.eos_token) for text in texts]
    assert tokenizer(ended)["input_ids"] == tokenizer(texts)["input_ids"]
    assert tokenizer.convert_ids_to_tokens(tokenizer.eos_token_id) == "<|im_end|>"
    assert tokenizer.model_max_length == FACTS["max_length"]
    assert tokenizer.pad_token_id != tokenizer.eos_token_id


def test_weights_of_another_head_are_refused_not_drawn_at_random(
    damaged: Path, make_model, tokenizer, tmp_path
) -> None:
    """A manifest that is whole, over weights without a head."""
    from safetensors.torch import load_file, save_file

    weights = load_file(damaged / "model.safetensors")
    del weights["score.weight"]
    save_file(weights, damaged / "model.safetensors", metadata={"format": "pt"})
    manifest = json.loads((damaged / MANIFEST).read_text())
    manifest["files"]["model.safetensors"] = sha256(damaged / "model.safetensors")
    manifest["digest"] = digest_of(manifest["files"])[:16]
    (damaged / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=r"do not fit the architecture.*score.weight"):
        load_checkpoint(damaged)


@pytest.mark.parametrize("name", ["adapter_config.json", "model-00001-of-00002.safetensors", "additional.py"])
def test_an_added_file_that_might_be_loaded_is_refused(damaged: Path, name: str) -> None:
    (damaged / "README.md").write_text("Notes do no harm.")
    load_checkpoint(damaged)
    (damaged / name).write_text("{}")
    with pytest.raises(ValueError, match=f"{name} is not in crm.json and might be loaded; move it away"):
        load_checkpoint(damaged)
