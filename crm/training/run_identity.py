"""Which run a checkpoint belongs to. In: settings, model and data. Out: what checkpoints keep of them; no mix of two.

A run that goes on under other settings would train something that nobody has described, and overwrite what was there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from transformers import PreTrainedModel

from crm.schema import Preference, to_json
from crm.training.checkpointing import whole_version
from crm.training.run_folder import AnotherRunError

KEY = "run"
"""Where a checkpoint holds the identity of its run."""
FORMAT = 1
"""Of a checkpoint to resume from."""
FREE = (
    *("run_dir", "resume", "overwrite", "logger"),
    # What these name is compared itself: files may have moved.
    *("data.root", "data.path", "model.path", "model.revision"),
    # Where and how fast the same numbers are computed.
    *("trainer.name", "trainer.accelerator", "trainer.strategy", "trainer.threads"),
    *(
        "trainer.compile",
        "trainer.liger",
        "trainer.peak_tflops",
        "trainer.progress",
        "schedule.save_every",
        "schedule.name",
    ),
    *("model.gradient_checkpointing", "model.kept_states", "model.kept_states_gb"),
    # Another number of devices may share the same steps.
    *("trainer.devices", "trainer.nodes", "batching.batch_size"),
)
"""Settings that may differ when a run goes on."""
PROCESSES = "trainer.devices x nodes"
SHOWN = 5
"""Differences that a message names; the others are counted."""

Identity = dict[str, Any]
"""Names to plain values: every setting that matters, and digests of the data and of the model."""


def identify(
    settings: Mapping[str, Any], backbone: PreTrainedModel, tokenizer: Any, *parts: Iterable[Preference]
) -> Identity:
    """The identity of a run from its configuration (nested, plain), its model and the ``parts`` of its data."""
    flat = _flat(settings)
    processes = flat["trainer.devices"] * flat["trainer.nodes"]
    identity = {name: value for name, value in flat.items() if name not in FREE and name.partition(".")[0] not in FREE}
    # Packed passes are cut from whole steps and dealt out to processes; of padded ones the loader compares the rows.
    if flat["batching.name"] != "padded":
        identity[PROCESSES] = processes
    architecture = {name: value for name, value in backbone.config.to_dict().items() if name != "_name_or_path"}
    identity["the model (architecture and tokenizer)"] = _digest([_json(architecture), _json(tokenizer.get_vocab())])
    identity["the data (rows to train and validate on)"] = _digest(to_json(row) for part in parts for row in part)
    return identity


def refuse_another(path: Path, identity: Identity) -> None:
    """Raise `AnotherRunError`, naming what differs, unless the checkpoint ``path`` is of this very run.

    Only its description is read, not its weights.
    """
    saved = torch.load(whole_version(path), map_location="cpu", weights_only=True, mmap=True)
    _compare(path, saved, identity)


class KeepIdentity(Callback):
    """Puts the identity of a run into its checkpoints, and refuses to load those of another."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity

    def on_save_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        """Add it."""
        checkpoint["format"] = FORMAT
        checkpoint[KEY] = self.identity

    def on_load_checkpoint(self, trainer: L.Trainer, pl_module: L.LightningModule, checkpoint: dict[str, Any]) -> None:
        """Compare it."""
        _compare(Path("checkpoint"), checkpoint, self.identity)


def _compare(path: Path, checkpoint: Mapping[str, Any], identity: Identity) -> None:
    if checkpoint.get("format") != FORMAT:
        found = f"has format {checkpoint.get('format')!r:.20}, this version reads {FORMAT}"
        raise AnotherRunError(f"resume=true: {path} {found}; go on with the version that wrote it, or start a new run")
    saved = checkpoint.get(KEY)
    if not isinstance(saved, dict):
        raise AnotherRunError(f"resume=true: {path} does not say which run it is of; start a new run")
    differing = [name for name in {**saved, **identity} if saved.get(name) != identity.get(name)]
    if not differing:
        return
    told = "; ".join(_told(name, saved, identity) for name in differing[:SHOWN])
    more = f"; and {len(differing) - SHOWN} more" if len(differing) > SHOWN else ""
    raise AnotherRunError(
        f"resume=true: {path} is of a run with other settings: {told}{more}. Give the settings of that run (its "
        "config.yaml has them; a newer setting needs the version that wrote the checkpoint), or start a new run in "
        "another hydra.run.dir"
    )


def _told(name: str, saved: Mapping[str, Any], identity: Identity) -> str:
    if name.startswith("the "):
        return f"{name} differ"
    before = f"was {saved[name]!r:.60}" if name in saved else "did not exist"
    return f"{name} {before}, now {identity.get(name)!r:.60}"


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            found |= _flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = list(value) if isinstance(value, tuple) else value
    return found


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _digest(texts: Iterable[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
    return digest.hexdigest()[:16]
