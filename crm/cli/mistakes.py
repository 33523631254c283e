"""A user's mistake on the command line, as one sentence with the way out."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    GrammarParseError,
    InterpolationResolutionError,
    MissingMandatoryValue,
    OmegaConfBaseException,
)
from yaml import YAMLError

from crm.cli.words import SAME, SCORED
from crm.config import group_names, hydra_text, nearest, option_names, schema, setting_names, taken_groups
from crm.io.rows import is_data_file

MISTAKES = (HydraException, OmegaConfBaseException, YAMLError, ValueError, OSError)
"""What a user can mend: a setting, a file, a folder, a full disk. Anything else is a defect and keeps its traceback."""
OPTIONS = re.compile(
    r"-m|-h|-r|-i|-c|-p|-c(p|n|d|job|all|hydra)|-sc|--(multirun|help|hydra-help|version|run|info|cfg|package|resolve"
    r"|config-(path|name|dir)|experimental-rerun|shell-completion)(=.*)?"
)
"""Of Hydra's command line, and ours."""
NAMED = re.compile(r"([~+]{0,2}[\w./@-]+)=(.*)", re.DOTALL)


def undashed(words: Sequence[str]) -> list[str]:
    """``--name=value``, ``--name value`` and ``--name``, as users of Hugging Face's scripts type them, as settings."""
    found: list[str] = []
    alone = False
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        dashed = word.startswith("--") and not OPTIONS.fullmatch(word)
        if alone and not equals and word[:1] != "-":
            found[-1] = found[-1].removesuffix("true") + word
        else:
            found.append(f"{name.replace('-', '_')}={value if equals else 'true'}" if dashed else word)
        alone = dashed and not equals
    return found


def check_options(words: Sequence[str], command: str) -> None:
    """Raise ``ValueError`` for an option that no command has, and for a path alone."""
    for before, word in zip(["", *words], words, strict=False):
        if word.startswith("-") and not OPTIONS.fullmatch(word):
            raise ValueError(f"{word}: no such option; settings are written name=value, --help lists them")
        alone = not before.startswith("-") or before in ("-m", "--multirun")
        if alone and "=" not in word and word[:1] not in ("-", "~", "") and ("/" in word or Path(word).exists()):
            raise ValueError(f"{word}: a path needs the name of a setting; write {_path_setting(word, command)}={word}")


def _path_setting(path: str, command: str) -> str:
    """The setting of a command that a path is most likely meant for."""
    known = {*setting_names(schema(command)), *taken_groups(command)}
    if path.endswith((".yaml", ".yml")):
        return "config"
    names = ("data", "candidates", "input") if is_data_file(path) else ("checkpoint", "resume")
    return next((name for name in (*names, "out") if name in known), "data")


def quoted(word: str) -> str:
    """``name=value`` as a shell must be given it for Hydra to take the value as a text."""
    name, _, value = word.partition("=")
    return shlex.quote(f"{name}={hydra_text(value)}")


def unread(word: str) -> str:
    """What to say of a word that Hydra's grammar does not take: how to quote its value, where it has one."""
    found = NAMED.fullmatch(word)
    if found is None or found[2] == "":
        how = "write name=value, lists as [a,b]"
    elif found[2][0] in "[({":
        how = """quote texts inside and the whole: 'name=["it is so"]', a mapping as 'name=["key=value"]'"""
    else:
        how = f"quote the value, and the whole for the shell: {quoted(word)}"
    return f"{word or repr('')}: cannot be read as a setting; {how}"


def explain(error: BaseException, command: str) -> str:
    """One readable line for a mistake of a ``command``'s user, with the nearest valid name."""
    groups = taken_groups(command)
    sentence = _explain_hydra(error, groups) if isinstance(error, HydraException) else ""
    while isinstance(error.__cause__, Exception):
        error = error.__cause__
    if not sentence and isinstance(error, OSError) and error.strerror:
        sentence = f"{error.filename}: {error.strerror}; name another place" if error.filename else error.strerror
    if not sentence and isinstance(error, OmegaConfBaseException):
        known = [*setting_names(schema(command)), *groups]
        sentence = _unfit_value(error, [*known, *(name for name in SAME if SAME[name] in known)])
    sentence = " ".join((sentence or str(error) or type(error).__name__).split())
    for name, meaning in SCORED.items() if command == "score" else ():
        sentence = re.sub(rf"(?<![\w./-]){re.escape(meaning)}(?==|: )", name, sentence)
    return sentence


def _explain_hydra(error: HydraException, groups: Sequence[str]) -> str:
    """What Hydra says that has a better wording; empty for the rest."""
    message = str(error)
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        return _unknown_option(error.missing_cfg_file)
    if isinstance(error, OverrideParseException):
        return unread(error.override)
    if found := re.search(r"Ambiguous value for argument '(.*)'", message):
        listed = shlex.quote("{}=[{}]".format(*found[1].split("=", 1)))
        return f"{found[1]}: a comma makes several values: -m tries each, {listed} is a list, {quoted(found[1])} a text"
    if found := re.search(r"Could not override '([^@]+?)(@.*)?'\.\s+(No match|Did you mean)", message):
        known = f"there are {', '.join(groups)}{nearest(found[1], groups)}"
        return f"{found[1]}: no such group of this command, {known}"
    return ""


def _unknown_option(file: str) -> str:
    if file.startswith(("hydra/launcher/", "hydra/sweeper/")):
        shown = "=".join(file.rsplit("/", 1))
        return f"{shown}: no such option, or its plugin is missing: pip install 'crm-leaderboard[sweeps]'"
    group, _, option = file.partition("/")
    if group not in group_names():
        return f"{file}: no such configuration file{nearest(file, group_names())}"
    options = option_names(group)
    other = f"; for a model of a hub or a folder, model=pretrained model.path={option}" if group == "model" else ""
    other = "; a file or folder is data=<path>, and its columns tell the format" if group == "data" else other
    other = (
        "; a folder of bank.py, which makes one of files of responses, is bank=<folder>" if group == "bank" else other
    )
    return f"{group}={option}: no such option, there are {', '.join(options)}{nearest(option, options)}{other}"


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
    if "is not a subclass of" in str(cause):
        return f"{key}: has settings of its own; write {key}.<setting>=<value>, --help lists them"
    if "is not a ListConfig" in str(cause):
        return f"{key}: expected a list; write {key}=[a,b], or '{key}=[\"one text\"]'"
    return f"{key}: {line}" if key else line
