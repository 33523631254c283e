"""What the settings of all commands share. In: what Hydra composed from ``conf/``. Out: checked dataclasses.

The settings of a command stand beside its code. A typo or a wrong type fails while Hydra composes; ranges and
combinations fail in ``__post_init__``, which runs once, in `checked`. Below the entry layer no function sees these
classes: they take plain arguments.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

Config = TypeVar("Config")
ENTRY_POINTS = {
    "train": ("crm.training.config", "TrainConfig"),
    "evaluate": ("crm.evaluation.config", "EvaluateConfig"),
    "leaderboard": ("crm.leaderboard.config", "LeaderboardConfig"),
    "prepare": ("crm.dataset.prepare.config", "PrepareConfig"),
    "app": ("crm.page.config", "AppConfig"),
    "bank": ("crm.leaderboard.bank.config", "BankBuildConfig"),
}
"""Module and class of the settings of every command."""
PRECISIONS = ("32-true", "bf16-mixed")


def require(condition: bool, field_name: str, value: Any, allowed: str) -> None:
    """Raise ``ValueError`` naming the field, its value and what is allowed, unless ``condition`` holds."""
    if not condition:
        raise ValueError(f"{field_name}={value!r}: expected {allowed}")


def one_of(field_name: str, value: str, allowed: Sequence[str]) -> None:
    """`require` for a choice."""
    require(value in allowed, field_name, value, f"one of {', '.join(allowed)}")


def mapping(field_name: str, value: Any) -> dict[str, str] | None:
    """A mapping of texts, or null. Raises ``ValueError`` for anything else.

    Such a setting is typed Any and stays null by default: Hydra takes a whole mapping in the place of null, and adds no
    keys to one that is there.
    """
    require(value is None or isinstance(value, dict), field_name, value, "a mapping such as {a: b}")
    return None if value is None else {str(key): str(item) for key, item in value.items()}


@cache
def schemas() -> dict[str, type]:
    """The settings of every entry point. They stand beside their code, which is imported only here."""
    return {name: getattr(import_module(module), settings) for name, (module, settings) in ENTRY_POINTS.items()}


def register() -> None:
    """Make the schemas known to Hydra as ``<entry point>_schema``; calling it again changes nothing."""
    for name, schema in schemas().items():
        ConfigStore.instance().store(name=f"{name}_schema", node=schema)


def config_dir() -> Path:
    """Folder of the configuration: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


def compose(name: str, overrides: Sequence[str], run_dir: Path | None = None) -> Any:
    """The checked configuration of an entry point (a key of `ENTRY_POINTS`), as its command line would give it.

    ``run_dir`` is for the entry points that write into a run folder, all but ``prepare``.
    """
    register()
    place = [f"run_dir='{run_dir}'"] if run_dir else []
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        composed = hydra_compose(name, overrides=[*overrides, *place])
    return checked(composed, schemas()[name])


def checked(composed: DictConfig, schema: type[Config]) -> Config:
    """Resolve interpolations and run every check. Raises ``ValueError`` naming field, value and what is allowed.

    Hydra adds whatever is written with a leading ``+``, so that a typo there is found only here.
    """
    known = setting_names(schema)
    for name in setting_names(composed):
        require_known(name, known)
    config = OmegaConf.to_object(composed)
    assert isinstance(config, schema), f"{type(config)} composed where {schema} was expected"
    return config


def setting_names(settings: Any) -> list[str]:
    """Dotted names of all settings of a schema or of a composed configuration."""

    def walk(node: DictConfig, prefix: str) -> list[str]:
        names = []
        for key in map(str, node):
            names.append(f"{prefix}{key}")
            child = node._get_node(key)
            if isinstance(child, DictConfig) and is_dataclass(OmegaConf.get_type(child)):  # not a mapping of a user's
                names += walk(child, f"{prefix}{key}.")
        return names

    return walk(settings if isinstance(settings, DictConfig) else OmegaConf.structured(settings), "")


def require_known(name: str, known: Sequence[str]) -> None:
    """Raise ``ValueError`` with the nearest valid name, unless ``name`` is a setting."""
    if name not in known:
        raise ValueError(f"{name}: no such setting{nearest(name, known)}")


def nearest(name: str, names: Iterable[str]) -> str:
    """``; did you mean X?``, or nothing where no name is near."""
    near = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else ""
