"""A user's mistakes in words. In: what Hydra, OmegaConf or our checks raised. Out: one sentence with the way out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    GrammarParseError,
    InterpolationResolutionError,
    MissingMandatoryValue,
    OmegaConfBaseException,
)

from crm.cli.command_line import refused, unread
from crm.cli.places import refused_place
from crm.config import config_dir, nearest, schemas, setting_names

MISTAKES = (HydraException, OmegaConfBaseException, ValueError, OSError)
"""What a user can mend: a setting, a file, a folder, a full disk. Anything else is a defect and keeps its traceback."""


def explain(error: BaseException, schema: type, places: Mapping[str, str] | None = None) -> str:
    """One readable line for a mistake, with the nearest valid name; ``schema`` is the entry point's.

    ``places`` are the settings that may have named a folder or file, which an error of the disk is about.
    """
    return " ".join(_explained(error, schema, places or {}).split())


def _explained(error: BaseException, schema: type, places: Mapping[str, str]) -> str:
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return _unknown_option(error.missing_cfg_file)
    if isinstance(error, OverrideParseException):
        return unread(error.override)
    if isinstance(error, OSError) and not isinstance(error, HydraException):
        return refused_place(error, places)
    if isinstance(error.__cause__, OSError) and "Unable to configure handler" in str(error):  # the log of a run
        return refused_place(error.__cause__, places)
    groups = [group for name, found in schemas().items() if found is schema for group in taken_groups(name)]
    if isinstance(error, HydraException) and (said := refused(str(error), groups)):
        return said
    cause = _root(error)
    if isinstance(cause, OmegaConfBaseException):
        return _unfit_value(cause, [*setting_names(schema), *groups])
    return str(error) or type(error).__name__


def group_names() -> list[str]:
    """Folders of ``conf/``, each a group of options; ``hydra/`` holds presets of Hydra's own."""
    folders = (path.name for path in config_dir().iterdir() if path.is_dir())
    return sorted(name for name in folders if not name.startswith("_") and name != "hydra")


def taken_groups(command: str) -> list[str]:
    """The groups that the defaults of ``conf/<command>.yaml`` name, those without a default too, sorted."""
    composed = OmegaConf.load(config_dir() / f"{command}.yaml")
    assert isinstance(composed, DictConfig) and isinstance(composed.defaults, ListConfig)
    return sorted(str(group) for entry in composed.defaults if isinstance(entry, DictConfig) for group in entry)


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


def _unfit_value(cause: OmegaConfBaseException, known: Sequence[str]) -> str:
    key = str(getattr(cause, "full_key", None) or "")
    if isinstance(cause, MissingMandatoryValue):
        return f"{key}: not given; add {key}=<value>"
    if isinstance(cause, InterpolationResolutionError | GrammarParseError):
        how = f"where the text itself holds ${{, write \\${{ and quote it: '{key or 'name'}=\"a\\${{b}}\"'"
        return f"{key}: {_first_line(cause)}; {how}"
    if isinstance(cause, ConfigAttributeError | ConfigKeyError):
        return f"{key}: no such setting{nearest(key, known)}"
    if "is not a ListConfig" in str(cause):
        return f"{key}: expected a list; write {key}=[a,b], or '{key}=[\"one text\"]'"
    return f"{key}: {_first_line(cause)}" if key else _first_line(cause)


def _root(error: BaseException) -> BaseException:
    while isinstance(error.__cause__, Exception):
        error = error.__cause__
    return error


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
