"""Settings of judges."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from crm.config import MAX_SEED, PRECISIONS, Settings, count_or_auto, setting
from crm.endpoint.client import EndpointConfig
from crm.io.installed import check_known
from crm.model.config import BatchingConfig, training_config

JUDGES = ("crm", "traits", "reward_model", "llm", "length", "coin", "oracle")


def _trained(name: str, otherwise: Any, *, _root_: Any) -> Any:
    """``${trained:data.path,null}``: the setting ``name`` of the training of ``checkpoint``, or ``otherwise``."""
    if "checkpoint" not in _root_:
        return "checkpoint" if name == "data.name" else otherwise  # a name that no training takes
    record: Any = training_config(_root_.checkpoint)
    for key in name.split("."):
        record = record.get(key) if isinstance(record, dict) else None
    lost = name == "data.root" and not Path(str(record)).is_dir()
    return otherwise if record is None or lost else record


def _split_of(path: str | None, *, _root_: Any) -> str:
    """``data.split`` of what is evaluated: ``all`` where the checkpoint was trained on data other than ``path``."""
    data = training_config(_root_.checkpoint).get("data") or {}
    if path and data and (data.get("path") is None or Path(path).resolve() != Path(data["path"]).resolve()):
        return "all"
    return str(data.get("split", "auto")) if path else "auto"


OmegaConf.register_new_resolver("trained", _trained, replace=True)
OmegaConf.register_new_resolver("split_of", _split_of, replace=True)


@dataclass
class JudgeConfig(EndpointConfig, group="judge"):
    """Which judge. Settings of another judge are ignored, so that a sweep can name several.

    ``crm`` reads ``checkpoint``; ``traits`` counts what the criteria ask for; ``reward_model`` reads ``path``; ``llm``
    asks an endpoint; ``length``, ``coin`` and ``oracle`` are controls.
    """

    name: str = "crm"
    path: str | None = None
    """For ``reward_model``: folder or hub id of a model that gives one score."""
    revision: str | None = None
    """Commit or tag of a hub id; the newest where null."""
    criteria_in: str = setting("auto", one_of=("auto", "system", "user", "none"))
    """Where a hub model reads the criteria: in a ``system`` turn, before the query (``user``), nowhere (``none``);
    ``auto`` is ``system`` where its template takes one, else ``user``. Without criteria nothing is added."""
    max_length: int = setting(0, at_least=0, zero="the model's positions, at most 16384", unit="tokens")
    """Tokens of one sequence of a hub model at most; a longer comparison is left out and counted."""
    options: Any = None
    """For a judge of another package: what it is made with, such as {limit: 5}; texts."""

    def __post_init__(self) -> None:
        check_known("judge.name", self.name, JUDGES, "judges")
        super().__post_init__()
        self.as_mappings("options")
        if self.name == "reward_model":
            self.require(self.path, "path", "a folder or hub id for judge=reward_model")
        if self.name == "llm":
            self.need()


@dataclass
class AnyJudgeConfig(Settings):
    """What entry points share that take any judge, and how it is run."""

    judge: JudgeConfig = field(default_factory=JudgeConfig)
    checkpoint: str | None = None
    """For ``judge=crm``: a run folder of `train.py`, its ``model`` folder, or ``owner/name[@revision]`` of a hub."""
    predictions: str | None = None
    """Folder of prediction files, kept between runs; null means ``predictions`` beside the checkpoint, and
    ``outputs/predictions`` for a judge that has none."""
    batch_size: int = setting(64, at_least=1)
    """Comparisons of a padded forward pass; packed ones have ``batching.tokens``."""
    batching: BatchingConfig = field(default_factory=BatchingConfig)
    devices: Any = 1
    """Processes on this machine, one a GPU, or on the CPU where there is none; each reads its share.
    ``auto`` or -1: every visible GPU, and under torchrun or srun what they start."""
    nodes: Any = 1
    precision: str = setting("32-true", one_of=PRECISIONS)
    threads: int = setting(0, at_least=0, zero="torch's default")
    seed: int = setting(42, at_least=0, at_most=MAX_SEED)
    progress: bool = True
    run_dir: str = "${hydra:runtime.output_dir}"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("devices", "nodes"):
            setattr(self, name, count_or_auto(self, name))
        given = self.judge.name != "crm" or self.checkpoint
        if not given:
            raise ValueError(
                "checkpoint: not given; add checkpoint=<run folder of train.py, or owner/name>, or judge=..."
            )
