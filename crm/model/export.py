"""Checkpoints to keep. In: a trained reward model. Out: a Hugging Face folder with digests, and back again.

``scalar`` and ``pairwise`` become sequence classification with 1 and 2 labels, ``pairwise_span`` token classification
with 2 labels read at the end of each response. Stock transformers loads all three and gets the same numbers. ``late``
becomes a backbone that `AutoModel` loads, and the head's weights beside it in ``late_head.safetensors``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from glob import escape
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn
from torch.distributed.tensor import DTensor
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    PreTrainedModel,
)

from crm.model.backbone import FILES, ask_hub
from crm.model.card_sections import TALKED_ROUND as TALKED_ROUND
from crm.model.card_sections import write_section as write_section
from crm.model.heads import PromptOrder, head_named
from crm.model.late_head import LateHead
from crm.model.manifest import MANIFEST, check_files, read_manifest, write_manifest
from crm.model.model_card import write_card
from crm.model.reward_model import RewardModel
from crm.model.template import TURN_END, chat_template

LATE_HEAD = "late_head.safetensors"
LABELS = {1: {0: "reward"}, 2: {0: "model_a", 1: "model_b"}}
"""Names of the outputs of a head, by their number."""
ALLOWED = tuple(form.removeprefix("*") for form in FILES)
"""Endings of the files that are fetched of a hub's model."""


def export_model(
    model: RewardModel,
    tokenizer: Any,
    folder: Path,
    facts: dict[str, Any],
    prompt_order: PromptOrder = "criteria_first",
) -> str:
    """Write the folder and return its digest. ``model.backbone`` must be plain (adapters merged).

    ``facts`` (plain JSON values: longest sequence, training configuration, commit) go into ``crm.json`` beside the
    prompt order that the model was trained in and the sha256 of every file. Raises ``ValueError``, and writes nothing,
    for weights that are not finite.
    """
    return _write(to_hugging_face(model), tokenizer, model.head, folder, facts, prompt_order, _beside(model))


def _beside(model: RewardModel) -> LateHead | None:
    """The head, where no stock class has a place for it."""
    return model.score if isinstance(model.score, LateHead) else None


def _write(
    exported: PreTrainedModel,
    tokenizer: Any,
    head: str,
    folder: Path,
    facts: dict[str, Any],
    prompt_order: PromptOrder,
    beside: LateHead | None = None,
) -> str:
    for part in filter(None, (exported, beside)):
        _refuse_not_finite(part)
    with _told_where(folder):
        return _write_files(exported, tokenizer, head, folder, facts, prompt_order, beside)


@contextmanager
def _told_where(folder: Path) -> Iterator[None]:
    """A full disk or a closed folder in one sentence; safetensors and tokenizers have errors of their own for it."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, OSError) and "os error" not in str(error):
            raise
        why = f"could not be written ({' '.join(str(error).split())[:120]})"
        raise ValueError(f"export: {folder} {why}; make room or choose another folder, and export again") from error


def _write_files(
    exported: PreTrainedModel,
    tokenizer: Any,
    head: str,
    folder: Path,
    facts: dict[str, Any],
    prompt_order: PromptOrder,
    beside: LateHead | None,
) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    exported.save_pretrained(folder)
    if beside is not None:
        told = {"response_layers": str(beside.response_layers)}  # several entries would be written in any order
        weights_of_head = {name: weight.detach().cpu() for name, weight in beside.state_dict().items()}
        weights_of_head.pop("user_vectors", None)
        save_file(weights_of_head, folder / LATE_HEAD, metadata=told)
    for weights in folder.glob("*.safetensors"):
        weights.chmod((folder / "config.json").stat().st_mode)  # transformers leaves them to their owner alone
    tokenizer = deepcopy(tokenizer)  # whoever trains goes on with theirs
    tokenizer.chat_template = chat_template(head, prompt_order)
    # Trainers and servers append the end of text where it is missing; a prompt of ours ends in this token already.
    tokenizer.eos_token = TURN_END
    tokenizer.model_max_length = facts.get("max_length", exported.config.max_position_embeddings)
    tokenizer.save_pretrained(folder)
    digest = write_manifest(folder, head, prompt_order, facts)
    write_card(folder, head, prompt_order, facts, digest)
    return digest


def _refuse_not_finite(model: nn.Module) -> None:
    for name, weight in model.named_parameters():
        if not bool(torch.isfinite(weight).all()):
            raise ValueError(
                f"export: {name} holds NaN or infinite weights, so nothing was written; lower optimizer.lr or use "
                "trainer.precision=32-true, and train again"
            )


def to_hugging_face(model: RewardModel) -> PreTrainedModel:
    """The stock classification model, or backbone, with this model's weights (shared, not copied).

    Raises ``ValueError`` for weights spread over processes: a file would hold one process's part of them.
    """
    if any(isinstance(parameter, DTensor) for parameter in model.parameters()):
        raise ValueError(
            "export: the weights are spread over processes; gather them first (crm.training.devices.gather)"
        )
    if _beside(model) is not None:
        assert isinstance(model.backbone, PreTrainedModel)
        model.backbone.train(False)
        return model.backbone
    assert isinstance(model.score, nn.Linear)
    config = model.backbone.config.__class__.from_dict(model.backbone.config.to_dict())
    labels = LABELS[head_named(model.head).outputs]
    config.id2label, config.label2id = labels, {label: index for index, label in labels.items()}
    # Servers turn the outputs into probabilities, unless they are told that these are scores.
    config.problem_type = "regression" if head_named(model.head).has_scores else None
    config.dtype = "float32"
    auto = _class_of(model.head)
    with torch.device("meta"):
        exported = auto.from_config(config)
    exported.set_submodule(exported.base_model_prefix, model.backbone)
    exported.score = _with_zero_bias(model.score) if exported.score.bias is not None else model.score
    assert isinstance(exported, PreTrainedModel)
    exported.train(False)
    return exported


def _class_of(head: str) -> Any:
    """The stock class that applies the ``score`` layer where the head reads, or the backbone's alone."""
    if head_named(head).apart:
        return AutoModel
    return AutoModelForTokenClassification if head_named(head).spans else AutoModelForSequenceClassification


def _with_zero_bias(score: nn.Linear) -> nn.Linear:
    """Token classification has a bias; a zero one says the same as none."""
    layer = nn.Linear(score.in_features, score.out_features, device=score.weight.device, dtype=score.weight.dtype)
    layer.weight = score.weight
    nn.init.zeros_(layer.bias)
    return layer


def export_as_single_label(
    model: RewardModel,
    tokenizer: Any,
    folder: Path,
    facts: dict[str, Any],
    prompt_order: PromptOrder = "criteria_first",
) -> str:
    """The pairwise head as one label, score = W[0] - W[1]: sigmoid(logit) is P(first preferred), nothing is lost.

    For tools that know one-label models only (a sigmoid over one logit equals the softmax over two). No problem type
    is set, so that servers apply that sigmoid. `load_checkpoint` refuses the folder: our own stages read the original.
    """
    if model.head != "pairwise":
        raise ValueError(f"head={model.head}: only the pairwise head has two logits to subtract")
    assert isinstance(model.score, nn.Linear)
    difference = nn.Linear(model.score.in_features, 1, bias=False, device=model.device)
    with torch.no_grad():
        difference.weight.copy_((model.score.weight[0] - model.score.weight[1]).unsqueeze(0))
    exported = to_hugging_face(RewardModel(model.backbone, difference, "scalar"))
    exported.config.id2label, exported.config.label2id = {0: "model_a"}, {"model_a": 0}
    exported.config.problem_type = None
    return _write(exported, tokenizer, "pairwise", folder, {**facts, "single_label": True}, prompt_order)


def checkpoint_folder(given: str | Path) -> Path:
    """The model folder that ``checkpoint=`` names: itself, ``model`` in a run folder, or a hub's model, fetched.

    A hub's model is ``owner/name`` or ``owner/name@revision``, with or without ``hf://``. Only the manifest and the
    files that it lists are fetched, where they are not cached. Raises ``ValueError``, within seconds, for a folder
    without a model (saying what it holds and what to type), and where the hub cannot be reached, has no such model, or
    holds one that training did not write.
    """
    text = str(given)
    folder = Path(text).expanduser()
    for model in (folder, folder / "model"):
        if (model / MANIFEST).is_file():
            return model
    name, _, revision = text.removeprefix("hf://").partition("@")
    local = folder.exists() or folder.parent.is_dir() or text.startswith(("~", "/")) or name.count("/") != 1
    if local and not text.startswith("hf://"):
        raise ValueError(f"checkpoint={text}: {_what_is_there(folder)}")
    return _of_hub(name, revision or None)


def _of_hub(path: str, revision: str | None) -> Path:
    try:
        folder = _fetch(path, revision, local_files_only=True)
        if all((folder / name).is_file() for name in read_manifest(folder)["files"]):
            return folder
    except (OSError, ValueError):
        pass  # not cached, or not all of it: the hub is asked next
    ask_hub(path, revision, "checkpoint")
    return _fetch(path, revision)


def _what_is_there(folder: Path) -> str:
    """Why there is no model in ``folder``, and what to type instead."""
    if folder.is_dir() and any(folder.glob("checkpoints/*.ckpt")):
        return f"its training has not ended; go on with resume=true hydra.run.dir={folder}"
    if (folder / "config.json").is_file():
        return (
            f"no {MANIFEST} there: not a model of train.py, or not all of it; other reward models: judge=reward_model "
            f"judge.path={folder}; to train from it: model.path={folder}"
        )
    found = "no model there" if folder.exists() else "no such folder"
    if runs := _runs_near(folder if folder.is_dir() else folder.parent):
        return f"{found}; trained models nearby, newest first: {', '.join(map(str, runs[:3]))}; give one of these"
    return f"{found}; give a run folder of train.py, the `model` folder in it, or owner/name of a hub"


def _runs_near(folder: Path) -> list[Path]:
    """Run folders with a model, newest first: in ``folder``, beside it, and where commands write."""
    near = {place: 3 for place in (folder, folder.parent) if place != Path(place.anchor)}
    usual = {Path(name): 6 for name in ("runs", "outputs", "multirun", "results", "models")}
    found = {
        path.parent.parent if path.parent.name == "model" else path.parent: path.stat().st_mtime
        for place, depths in (near | usual).items()
        for depth in range(depths)
        for path in place.glob("*/" * depth + MANIFEST)
    }
    return sorted(found, key=lambda run: -found[run])


def _fetch(path: str, revision: str | None, **named: Any) -> Path:
    """The manifest of a hub's model first, then the files that it lists: no pickles, no code, whatever lies there."""
    get = partial(snapshot_download, path, revision=revision, **named)
    listed = read_manifest(Path(get(allow_patterns=[MANIFEST])))["files"]
    return Path(get(allow_patterns=[MANIFEST, *(escape(name) for name in listed if name.endswith(ALLOWED))]))


def load_checkpoint(checkpoint: str | Path) -> tuple[RewardModel, Any, dict[str, Any]]:
    """Model (float32, eval mode), tokenizer and manifest; every file is checked against its digest first.

    ``checkpoint`` is what `checkpoint_folder` takes. Raises ``ValueError`` for a file that is missing, differs by as
    little as one bit or was added, and for weights that do not fit the architecture: a head is never initialised at
    random in silence.
    """
    folder = checkpoint_folder(checkpoint)
    manifest = read_manifest(folder)
    if manifest.get("single_label"):
        raise ValueError(f"checkpoint={folder}: a one-label copy for other tools; give the `model` folder beside it")
    check_files(folder, manifest)
    head = str(manifest["head"])
    loaded, info = _class_of(head).from_pretrained(
        folder, dtype=torch.float32, output_loading_info=True, use_safetensors=True, trust_remote_code=False
    )
    unfit = {key: names for key, names in info.items() if names and key in ("missing_keys", "mismatched_keys")}
    if unfit:
        raise ValueError(f"checkpoint={folder}: weights do not fit the architecture: {unfit}")
    score: nn.Module
    if head_named(head).apart:
        score = _read_late_head(folder, loaded.config.hidden_size)
    else:
        score = nn.Linear(loaded.score.in_features, loaded.score.out_features, bias=False)
        score.weight = loaded.score.weight
    model = RewardModel(loaded.base_model, score, head).eval()
    return model, AutoTokenizer.from_pretrained(folder), manifest


def _read_late_head(folder: Path, hidden_size: int) -> LateHead:
    try:
        with safe_open(folder / LATE_HEAD, "pt") as file:
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
            layers = int((file.metadata() or {}).get("response_layers", 0))
        found = len(weights.get("response.norm.weight", ()))
        if found != hidden_size:
            raise ValueError(f"it reads states of {found} numbers, the backbone beside it has {hidden_size}")
        return LateHead.of_weights(weights, layers)
    except (OSError, SafetensorError, TypeError, ValueError) as error:
        reason = f"{LATE_HEAD} is no head of this backbone ({str(error).splitlines()[0]})"
        raise ValueError(f"checkpoint={folder}: {reason}; copy the folder again, or export the model anew") from None
