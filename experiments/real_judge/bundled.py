"""Rebuild the bundled judge from its head and the backbone that it was trained on.

Its backbone was frozen, so that a head is all that training made: a few megabytes in float16.

    python -m experiments.real_judge.bundled models/smollm2_135m --out models/real_judge/model
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import nn

from crm.io.files import replace_file
from crm.model.backbone import keep_lowest_layers, load_backbone
from crm.model.export import export_model, load_checkpoint
from crm.model.late_head import LateHead
from crm.model.manifest import MANIFEST
from crm.model.model_card import ROBUSTNESS_SECTION, read_section, write_section
from crm.model.reward_model import RewardModel

BUNDLED = Path(__file__).with_name("judge.safetensors")
FORMAT = 2
"""Of what is packed."""
_OF_FOLDER = ("version", "head", "prompt_order", "digest")
"""Entries of a manifest about its own folder; all others are about the training."""
_OF_TRAINER = ("logger", "resume", "run_dir")
"""Settings about whoever trained."""


def main(words: Sequence[str] | None = None) -> int:
    """Command line: the folder of the backbone, and where the checkpoint goes."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.real_judge.bundled", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("backbone", help="a Hugging Face folder, or a hub's owner/name")
    parser.add_argument("--out", type=Path, default=Path("models/real_judge/model"))
    given = parser.parse_args(words)
    try:
        digest = assemble(given.backbone, given.out)
    except ValueError as error:
        print(f"experiments.real_judge.bundled: {error}", file=sys.stderr)
        return 2
    print(f"{given.out}: checkpoint {digest}; use it as checkpoint={given.out}")
    return 0


def pack(checkpoint: Path, path: Path = BUNDLED) -> Path:
    """Write the head of a late checkpoint in float16, and what is needed to find its backbone again.

    Its card's section about attacks is copied. Raises ``ValueError`` for another head. That the backbone was frozen
    shows when it is put together again.
    """
    model, _, manifest = load_checkpoint(checkpoint)
    if not isinstance(model.score, LateHead):
        raise ValueError(f"checkpoint={checkpoint}: its head is {manifest['head']}, expected late")
    facts = {name: value for name, value in manifest.items() if name not in _OF_FOLDER}
    facts["config"] = {name: _settings(group) for name, group in facts["config"].items() if name not in _OF_TRAINER}
    facts["config"]["data"].pop("root", None)
    record = {
        "facts": facts,
        "prompt_order": manifest["prompt_order"],
        "layers": len(model.backbone.layers),  # type: ignore[arg-type]
        "response_layers": model.score.response_layers,
        "backbone": weights_digest(model.backbone),
        "robustness": read_section(checkpoint, ROBUSTNESS_SECTION),
    }
    weights = {name: weight.half() for name, weight in model.score.state_dict().items()}
    record |= {"format": FORMAT, "weights": _digest(weights)}
    return replace_file(path, save(weights, metadata={"judge": json.dumps(record, separators=(",", ":"))}))


def assemble(backbone: str, out: Path, packed: Path = BUNDLED) -> str:
    """Write the checkpoint and return its digest. Raises ``ValueError`` for another backbone than the head's."""
    record, weights = _unpacked(packed)
    loaded, tokenizer = load_backbone(backbone, None, record["facts"]["max_length"])
    keep_lowest_layers(loaded, record["layers"])
    if weights_digest(loaded) != record["backbone"]:
        raise ValueError(
            f"{backbone}: has other weights than {packed.stem} was trained on; `make smollm2` makes the right ones"
        )
    head = LateHead.of_weights(weights, record["response_layers"])
    (out / MANIFEST).unlink(missing_ok=True)  # while other files are written there is no checkpoint
    digest = export_model(RewardModel(loaded, head, "late"), tokenizer, out, record["facts"], record["prompt_order"])
    if record.get("robustness"):
        write_section(out, ROBUSTNESS_SECTION, record["robustness"])
    return digest


def _settings(group: Any) -> Any:
    """Those of a group that are set: the package carries every byte."""
    if not isinstance(group, dict):
        return group
    return {name: value for name, value in group.items() if value is not None and value is not False and value != []}


def weights_digest(model: nn.Module) -> str:
    """16 hex digits of all weights, name by name."""
    return _digest(model.state_dict())


def _digest(weights: Mapping[str, torch.Tensor]) -> str:
    digest = hashlib.sha256()
    for name, weight in sorted(weights.items()):
        digest.update(name.encode())
        digest.update(weight.detach().float().contiguous().numpy().data)
    return digest.hexdigest()[:16]


def _unpacked(packed: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """The record of the file, and the head's weights in float32."""
    try:
        with safe_open(packed, "pt") as file:
            record: dict[str, Any] = json.loads((file.metadata() or {})["judge"])
            weights = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118 - no mapping
        if record.get("format") != FORMAT:
            raise ValueError(f"its format is {record.get('format')!r:.20}, this version reads {FORMAT}")
        if record["weights"] != _digest(weights):
            raise ValueError("its weights were changed after it was packed")
        return record, weights
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise ValueError(f"{packed}: is no packed judge ({error}); install the package again") from None


if __name__ == "__main__":
    sys.exit(main())
