"""``data=<path>`` on a command line: it means data=file with that path."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from crm.config import config_dir
from crm.io.hub import PREFIX
from crm.io.rows import is_data_file
from crm.quoting import escaped, hydra_text

MULTIRUN = {"-m", "--multirun"}


def rewrite(words: Sequence[str]) -> list[str]:
    """The words with ``data=<path>`` as ``data=file data.path="<path>"``; options of ``conf/data`` stay.

    In a sweep, paths between commas are a job each. Raises ``ValueError`` for a path that does not exist, for paths
    beside options, and where ``data.path`` is given too.
    """
    return [new for word in words for new in (_rewritten(word, words) if word.startswith("data=") else [word])]


def _rewritten(word: str, words: Sequence[str]) -> list[str]:
    value = word.removeprefix("data=").strip("'\"")
    values = [value] if Path(value).exists() or not MULTIRUN & set(words) else value.split(",")
    paths = [each for each in values if _is_path(each, words)]
    if not paths:
        return [word]
    if len(paths) < len(values):
        option = next(each for each in values if each not in paths)
        raise ValueError(f"{word}: {paths[0]} is a path and {option} an option; sweep over one kind at a time")
    other = next((given for given in words if given.startswith("data.path=")), None)
    if other:
        raise ValueError(f"{word} {other}: both name the data; leave one of them out")
    return ["data=file", f"data.path={','.join(_text(_existing(word, path)) for path in paths)}"]


def _is_path(value: str, words: Sequence[str]) -> bool:
    """Whether it can only be a path: no option has its name, and it exists or looks like one."""
    given = (words[at + 1 : at + 2] for at, word in enumerate(words) if word in ("--config-dir", "-cd"))
    folders = [Path(word.partition("=")[2]) for word in words if word.startswith("--config-dir=")]
    folders += [config_dir(), *(Path(folder) for found in given for folder in found)]
    if any((folder / "data" / f"{value}.yaml").is_file() for folder in folders) or value[:1] in ("", "["):
        return False
    return value.startswith(PREFIX) or "/" in value or is_data_file(value) or Path(value).expanduser().exists()


def _text(path: str) -> str:
    """A path as Hydra takes it: as it is, where nothing in it means something there."""
    plain = is_data_file(path) and re.fullmatch(r"[\w./-]+", path, re.ASCII)
    return path if plain else hydra_text(escaped(path))


def _existing(word: str, path: str) -> str:
    if path.startswith(PREFIX):
        return path
    place = Path(path).expanduser()
    if not (place.exists() or any(place.parent.glob(place.name))):
        raise ValueError(f"{word}: no such file or folder in {Path.cwd()}; check the path")
    return str(place) if path.startswith("~") else path
