"""Model folders: export a reward model as a stock Hugging Face model, and load it again.

``scalar`` and ``pairwise`` become sequence classification with 1 and 2 labels, ``pairwise_span`` token classification
with 2 labels read at the end of each response; stock transformers gives the same numbers. ``late`` becomes a backbone
that `AutoModel` loads, with the head's weights beside it in ``late_head.safetensors``.
"""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoModel, AutoModelForSequenceClassification, AutoModelForTokenClassification, PreTrainedModel

from crm.model.backbone import from_folder
from crm.model.encoding import TURN_END, chat_template
from crm.model.folders import checkpoint_folder
from crm.model.heads import head_named
from crm.model.late_head import LateHead
from crm.model.manifest import MANIFEST, read_manifest, write_manifest
from crm.model.model_card import write_card
from crm.model.reward_model import RewardModel

LATE_HEAD = "late_head.safetensors"
LABELS = {1: {0: "reward"}, 2: {0: "model_a", 1: "model_b"}}
"""Names of the outputs of a head, by their number."""


def export_model(model: RewardModel, tokenizer: Any, folder: Path, facts: dict[str, Any]) -> str:
    """Write the folder and return its digest. ``model.backbone`` must be plain (adapters merged).

    ``facts`` (plain JSON values: longest sequence, training configuration, commit) go into ``crm.json``.
    """
    exported = to_hugging_face(model)
    (folder / MANIFEST).unlink(missing_ok=True)  # written last: without it a half-written folder is no model
    exported.save_pretrained(folder)
    if isinstance(model.score, LateHead):  # no stock class has a place for it
        weights = {name: weight.detach().cpu() for name, weight in model.score.state_dict().items()}
        save_file(weights, folder / LATE_HEAD)
    for file in folder.glob("*.safetensors"):
        file.chmod((folder / "config.json").stat().st_mode)  # transformers lets only their owner read them
    tokenizer = deepcopy(tokenizer)  # the caller trains on with its own
    tokenizer.chat_template = chat_template(model.head)
    # Trainers and servers append the end of text where it is missing; a prompt of ours ends in this token already.
    tokenizer.eos_token = TURN_END
    tokenizer.model_max_length = facts.get("max_length", exported.config.max_position_embeddings)
    tokenizer.save_pretrained(folder)
    digest = write_manifest(folder, model.head, facts)
    write_card(folder, model.head, facts, digest)
    return digest


def to_hugging_face(model: RewardModel) -> PreTrainedModel:
    """The stock classification model, or backbone, with this model's weights (shared, not copied)."""
    if isinstance(model.score, LateHead):
        assert isinstance(model.backbone, PreTrainedModel)
        model.backbone.train(False)
        return model.backbone
    assert isinstance(model.score, nn.Linear)
    config = model.backbone.config.__class__.from_dict(model.backbone.config.to_dict())
    labels = LABELS[head_named(model.head).outputs]
    config.id2label, config.label2id = labels, {label: index for index, label in labels.items()}
    # Servers turn the outputs into probabilities, unless these are declared to be scores.
    config.problem_type = "regression" if head_named(model.head).has_scores else None
    config.dtype = "float32"
    auto = _class_of(model.head)
    with torch.device("meta"):
        exported = auto.from_config(config)
    exported.set_submodule(exported.base_model_prefix, model.backbone)
    exported.score.weight = weight = model.score.weight
    if exported.score.bias is not None:  # of token classification; a zero one changes nothing
        exported.score.bias = nn.Parameter(weight.new_zeros(len(weight)))
    assert isinstance(exported, PreTrainedModel)
    exported.train(False)
    return exported


def _class_of(head: str) -> Any:
    """The stock class that applies the ``score`` layer where the head reads, or the backbone's alone."""
    if head_named(head).apart:
        return AutoModel
    return AutoModelForTokenClassification if head_named(head).spans else AutoModelForSequenceClassification


def load_checkpoint(checkpoint: str | Path) -> tuple[RewardModel, Any, dict[str, Any]]:
    """Model (float32, eval mode), tokenizer and manifest; ``checkpoint`` is what `checkpoint_folder` takes.

    Raises ``ValueError`` where weights cannot be read or do not fit the architecture.
    """
    folder = checkpoint_folder(checkpoint)
    manifest = read_manifest(folder)
    head = str(manifest["head"])
    try:
        loaded, tokenizer = from_folder(_class_of(head), folder)
        if head_named(head).apart:
            score: nn.Module = LateHead.of_weights(load_file(folder / LATE_HEAD), loaded.config.hidden_size)
        else:
            score = loaded.score
            score.register_parameter("bias", None)  # zero
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        why = " ".join(str(error).split())
        raise ValueError(
            f"checkpoint={folder}: cannot be loaded ({why:.300}); copy the folder again, or export the model anew"
        ) from None
    return RewardModel(loaded.base_model, score, head).eval(), tokenizer, manifest
