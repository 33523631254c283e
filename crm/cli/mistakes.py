"""A user's mistake on the command line, as one sentence with the way out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

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

from crm.config import config_dir, nearest, schemas, setting_names
from crm.quoting import hydra_text

MISTAKES = (HydraException, OmegaConfBaseException, ValueError, OSError)
"""What a user can mend: a setting, a file, a folder, a full disk. Anything else is a defect and keeps its traceback."""
OPTIONS = re.compile(
    r"-m|-h|-r|-i|-c|-p|-c(p|n|d|job|all|hydra)|-sc|--(multirun|help|hydra-help|version|run|info|cfg|package|resolve"
    r"|config-(path|name|dir)|experimental-rerun|shell-completion)(=.*)?"
)
"""Of Hydra's command line, and ours."""
NAMED = re.compile(r"([~+]{0,2}[\w./@-]+)=(.*)", re.DOTALL)


def check_options(words: Sequence[str]) -> None:
    """Raise ``ValueError`` for an option that no command has, and for a value without a name."""
    for word in words:
        if word.startswith("-") and not OPTIONS.fullmatch(word):
            raise ValueError(f"{word}: no such option; settings are written name=value, --help lists them")
        if word.startswith("="):
            raise ValueError(unread(word))


def hydra_word(name: str, text: str) -> str:
    """``name="text"``, which Hydra takes for a text whatever is in it."""
    return f"{name}={hydra_text(text)}"


def quoted(word: str) -> str:
    """``name=value`` as a shell must be given it for Hydra to take the value as a text."""
    name, _, value = word.partition("=")
    return shlex.quote(hydra_word(name, value))


def unread(word: str) -> str:
    """What to say of a word that Hydra's grammar does not take: how to quote its value, where it has one."""
    cannot = "cannot be read as a setting"
    found = NAMED.fullmatch(word)
    if found is None or found[2] == "":
        return f"{word or repr('')}: {cannot}; write name=value, lists as [a,b]"
    if found[2][0] == "{":
        return f'{word}: {cannot}; write mappings as \'{found[1]}=["key=value","other key=value"]\''
    if found[2][0] in "[(":
        return f"""{word}: {cannot}; quote texts inside and the whole: 'name=["it is so"]'"""
    return f"{word}: {cannot}; quote the value, and the whole for the shell: {quoted(word)}"


def explain(error: BaseException, schema: type) -> str:
    """One readable line for a mistake, with the nearest valid name; ``schema`` is the entry point's."""
    return " ".join(_explained(error, schema).split())


def _explained(error: BaseException, schema: type) -> str:
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return _unknown_option(error.missing_cfg_file)
    if isinstance(error, OverrideParseException):
        return unread(error.override)
    cause = error.__cause__ if isinstance(error.__cause__, OSError) else error  # a log that cannot be opened
    if isinstance(cause, OSError) and not isinstance(cause, HydraException):
        reason = cause.strerror or str(cause) or type(cause).__name__
        return f"{cause.filename}: {reason}; name another place" if cause.filename else reason
    groups = [group for name, found in schemas().items() if found is schema for group in taken_groups(name)]
    if isinstance(error, HydraException):
        message = str(error)
        if found := re.search(r"Ambiguous value for argument '(.*)'", message):
            several = "a comma makes several values: -m tries each, [a,b] is a list, a text is quoted"
            return f"{found[1]}: {several}: {quoted(found[1])}"
        if found := re.search(r"Could not override '(.+?)'\.\s+(No match|Did you mean)", message):
            group = found[1].partition("@")[0]
            known = f"there are {', '.join(groups)}{nearest(group, groups)}"
            return f"{group}: no such group of this command, {known}"
        if found := re.search(r"BasicSweeper does not support sweep type : (\w+)", message):
            kind = found[1].lower().removesuffix("_sweep")
            return f"{kind}(...): searching is Optuna's, hydra/sweeper=optuna; or list the values: name=a,b"
    while isinstance(error.__cause__, Exception):
        error = error.__cause__
    if isinstance(error, OmegaConfBaseException):
        return _unfit_value(error, [*setting_names(schema), *groups])
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
    line = (str(cause).strip() or type(cause).__name__).splitlines()[0].rstrip(".")
    if isinstance(cause, MissingMandatoryValue):
        return f"{key}: not given; add {key}=<value>"
    if isinstance(cause, InterpolationResolutionError | GrammarParseError):
        how = f"where the text itself holds ${{, write \\${{ and quote it: '{key or 'name'}=\"a\\${{b}}\"'"
        return f"{key}: {line}; {how}"
    if isinstance(cause, ConfigAttributeError | ConfigKeyError):
        return f"{key}: no such setting{nearest(key, known)}"
    if "is not a ListConfig" in str(cause):
        return f"{key}: expected a list; write {key}=[a,b], or '{key}=[\"one text\"]'"
    return f"{key}: {line}" if key else line
