"""A user's mistakes in words. In: what Hydra, OmegaConf or our checks raised. Out: one sentence with the way out."""

from __future__ import annotations

from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    InterpolationKeyError,
    MissingMandatoryValue,
    OmegaConfBaseException,
)

from crm.config import config_dir, nearest, setting_names

MISTAKES = (HydraException, OmegaConfBaseException, ValueError, OSError)
"""What a user can mend: a setting, a file, a folder, a full disk. Anything else is a defect and keeps its traceback."""


def explain(error: BaseException, schema: type) -> str:
    """One readable line for a mistake, with the nearest valid name; ``schema`` is the entry point's."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return _unknown_option(error.missing_cfg_file)
    if isinstance(error, OverrideParseException):
        return f"{error.override}: cannot be read as a setting ({_first_line(error)}); write name=value, lists as [a,b]"
    cause = _root(error)
    if isinstance(cause, OmegaConfBaseException):
        return _unfit_value(cause, schema)
    return " ".join(str(error).split())


def group_names() -> list[str]:
    """Folders of ``conf/``, each a group of options; ``hydra/`` holds presets of Hydra's own."""
    folders = (path.name for path in config_dir().iterdir() if path.is_dir())
    return sorted(name for name in folders if not name.startswith("_") and name != "hydra")


def option_names(group: str) -> list[str]:
    """Options of a group, sorted."""
    return sorted(path.stem for path in (config_dir() / group).glob("*.yaml"))


def _unknown_option(file: str) -> str:
    group, _, option = file.rpartition("/")
    if group in ("hydra/launcher", "hydra/sweeper"):
        return f"{group}={option}: no such option, or its plugin is missing: pip install 'crm-leaderboard[sweeps]'"
    if group not in group_names():
        return f"{file}: no such configuration file{nearest(file, group_names())}"
    options = option_names(group)
    return f"{group}={option}: no such option, there are {', '.join(options)}{nearest(option, options)}"


def _unfit_value(cause: OmegaConfBaseException, schema: type) -> str:
    key = str(getattr(cause, "full_key", None) or "")
    if isinstance(cause, MissingMandatoryValue):
        return f"{key}: not given; add {key}=<value>"
    if isinstance(cause, InterpolationKeyError):
        return f"{key}: {_first_line(cause)}"
    if isinstance(cause, ConfigAttributeError | ConfigKeyError):
        return f"{key}: no such setting{nearest(key, [*setting_names(schema), *group_names()])}"
    return f"{key}: {_first_line(cause)}" if key else _first_line(cause)


def _root(error: BaseException) -> BaseException:
    while isinstance(error.__cause__, Exception):
        error = error.__cause__
    return error


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
