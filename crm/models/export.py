"""Checkpoints to keep. In: a trained reward model. Out: a Hugging Face folder with digests, and back again.

``scalar`` and ``pairwise`` become sequence classification with 1 and 2 labels, ``pairwise_span`` token classification
with 2 labels read at the end of each response. Stock transformers loads all three and gets the same numbers.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import (
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    PreTrainedModel,
)

from crm.data.encoding import CHAT_TEMPLATE, HEADS, HeadName
from crm.models.reward_model import RewardModel

MANIFEST = "crm.json"
FORMAT = 1
LABELS: dict[HeadName, dict[int, str]] = {
    "scalar": {0: "reward"},
    "pairwise": {0: "model_a", 1: "model_b"},
    "pairwise_span": {0: "model_a", 1: "model_b"},
}


def export_model(model: RewardModel, tokenizer: Any, folder: Path, facts: dict[str, Any]) -> str:
    """Write the folder and return its digest. ``model.backbone`` must be plain (adapters merged).

    ``facts`` (plain JSON values: head settings, training configuration, commit) go into ``crm.json`` beside the
    sha256 of every file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    exported = to_hugging_face(model)
    exported.save_pretrained(folder)
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != MANIFEST)
    digests = {path.name: sha256(path) for path in files}
    digest = hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()[:16]
    manifest = {"format": FORMAT, "head": model.head, "digest": digest, "files": digests, **facts}
    temporary = folder / f".{MANIFEST}.tmp"
    temporary.write_text(json.dumps(manifest, indent=2, ensure_ascii=False), encoding="utf-8")
    temporary.replace(folder / MANIFEST)
    return digest


def to_hugging_face(model: RewardModel) -> PreTrainedModel:
    """The stock classification model with this model's weights (shared, not copied)."""
    config = model.backbone.config.__class__.from_dict(model.backbone.config.to_dict())
    config.id2label = LABELS[model.head]
    config.label2id = {label: index for index, label in LABELS[model.head].items()}
    config.problem_type = "regression" if model.head == "scalar" else None
    config.dtype = "float32"
    auto = AutoModelForTokenClassification if model.head == "pairwise_span" else AutoModelForSequenceClassification
    with torch.device("meta"):
        exported = auto.from_config(config)
    exported.set_submodule(exported.base_model_prefix, model.backbone)
    exported.score = _with_zero_bias(model.score) if exported.score.bias is not None else model.score
    return exported.eval()


def _with_zero_bias(score: nn.Linear) -> nn.Linear:
    """Token classification has a bias; a zero one says the same as none."""
    layer = nn.Linear(score.in_features, score.out_features, device=score.weight.device, dtype=score.weight.dtype)
    layer.weight = score.weight
    nn.init.zeros_(layer.bias)
    return layer


def export_as_single_label(model: RewardModel, tokenizer: Any, folder: Path, facts: dict[str, Any]) -> str:
    """The pairwise head as one label, score = W[0] - W[1]: sigmoid(logit) is P(first preferred), nothing is lost.

    For tools that know one-label models only (a sigmoid over one logit equals the softmax over two).
    """
    if model.head != "pairwise":
        raise ValueError(f"head={model.head}: only the pairwise head has two logits to subtract")
    difference = nn.Linear(model.score.in_features, 1, bias=False, device=model.device)
    with torch.no_grad():
        difference.weight.copy_((model.score.weight[0] - model.score.weight[1]).unsqueeze(0))
    single = RewardModel(model.backbone, difference, "scalar")
    return export_model(single, tokenizer, folder, {**facts, "single_label_of": "pairwise"})


def read_manifest(folder: Path) -> dict[str, Any]:
    """``crm.json`` of a checkpoint. Raises ``ValueError`` where the folder is not one of ours or of another format."""
    path = folder / MANIFEST
    if not path.is_file():
        raise ValueError(f"checkpoint={folder}: no {MANIFEST} there; give the `model` folder of a training run")
    manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if manifest.get("format") != FORMAT or manifest.get("head") not in HEADS:
        raise ValueError(f"checkpoint={folder}: {MANIFEST} has format {manifest.get('format')}, expected {FORMAT}")
    return manifest


def load_checkpoint(folder: Path) -> tuple[RewardModel, Any, dict[str, Any]]:
    """Model (float32, eval mode), tokenizer and manifest; every file is checked against its digest first.

    Raises ``ValueError`` for a file that is missing or differs by as little as one bit, and for weights that do not
    fit the architecture: a head is never initialised at random in silence.
    """
    manifest = read_manifest(folder)
    for name, expected in manifest["files"].items():
        if not (folder / name).is_file() or sha256(folder / name) != expected:
            raise ValueError(f"checkpoint={folder}: {name} is missing or damaged (its sha256 differs); copy it again")
    head: HeadName = manifest["head"]
    auto = AutoModelForTokenClassification if head == "pairwise_span" else AutoModelForSequenceClassification
    loaded, info = auto.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    unfit = {key: names for key, names in info.items() if names and key in ("missing_keys", "mismatched_keys")}
    if unfit:
        raise ValueError(f"checkpoint={folder}: weights do not fit the architecture: {unfit}")
    score = nn.Linear(loaded.score.in_features, loaded.score.out_features, bias=False)
    score.weight = loaded.score.weight
    model = RewardModel(loaded.base_model, score, head).eval()
    return model, AutoTokenizer.from_pretrained(folder), manifest


def sha256(path: Path) -> str:
    """Hex digest of a file, read in blocks."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()
