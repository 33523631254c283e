"""Console entry points. In: command-line overrides. Out: a run folder; for a user's mistake one sentence and exit 2."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable
from typing import Any

import hydra
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from crm import config as settings
from crm.config import config_dir


def train() -> None:
    """``crm-train``: see ``conf/train.yaml``."""
    from crm.training import run_training

    _run("train", run_training)


def evaluate() -> None:
    """``crm-evaluate``: see ``conf/evaluate.yaml``."""
    from crm.evaluation.run import run_evaluation

    _run("evaluate", run_evaluation)


def leaderboard() -> None:
    """``crm-leaderboard``: see ``conf/leaderboard.yaml``."""
    from crm.leaderboard.run import run_leaderboard

    _run("leaderboard", run_leaderboard)


def _run(name: str, task: Callable[[Any], Any]) -> None:
    settings.register()
    schema = settings.SCHEMAS[name]

    @hydra.main(version_base="1.3", config_path=str(config_dir()), config_name=name)
    def entry(composed: DictConfig) -> Any:
        return task(settings.checked(composed, schema))

    # Hydra then raises instead of printing a traceback and exiting, and the sentence is made here.
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    try:
        entry()
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        print(f"crm-{name}: {explain(error, schema)}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print(f"crm-{name}: stopped; what was written stays", file=sys.stderr)
        sys.exit(130)


def explain(error: BaseException, schema: type) -> str:
    """One readable message for a mistake on the command line, with the nearest valid name where one is near."""
    cause: BaseException = error
    while isinstance(cause.__cause__, Exception):
        cause = cause.__cause__
    key = getattr(cause, "full_key", None) or ""
    message = str(error).strip()
    if isinstance(cause, OmegaConfBaseException) and "is not in struct" in str(cause) + message:
        return f"{key}: unknown setting{_nearest(key, setting_names(schema))}"
    if "Could not find" in message and "Available options" in message:
        group, _, option = message.split("'")[1].rpartition("/")
        options = [path.stem for path in (config_dir() / group).glob("*.yaml")]
        return f"{group}={option}: no such option; there are {', '.join(sorted(options))}{_nearest(option, options)}"
    if isinstance(cause, OmegaConfBaseException):
        return f"{key}: {str(cause).splitlines()[0]}" if key else str(cause).splitlines()[0]
    if isinstance(error, HydraException):
        wanted = message.split("'")[1] if "'" in message else message.split()[-1]
        groups = [path.name for path in config_dir().iterdir() if path.is_dir()]
        return f"{message.splitlines()[0]}{_nearest(wanted, [*groups, *setting_names(schema)])}"
    return message


def setting_names(schema: type) -> list[str]:
    """Dotted names of all settings of an entry point."""

    def walk(node: DictConfig, prefix: str) -> list[str]:
        names = []
        for key in node:
            names.append(f"{prefix}{key}")
            child = node._get_node(key)
            if isinstance(child, DictConfig):
                names += walk(child, f"{prefix}{key}.")
        return names

    return walk(OmegaConf.structured(schema), "")


def _nearest(name: str, names: list[str]) -> str:
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else ""
