"""Other names of settings: those that users of TRL, Hugging Face and Lightning type, and how ours are written."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml

from crm.config import config_dir, hydra_text, nearest
from crm.data.comparisons import SUITE, SUITES

MULTIRUN = {"-m", "--multirun"}
QUOTES = "'\""


def _by_name(names: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name: meaning for meaning, listed in names for name in listed.split()}


def _read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


_WORDS = _read(Path(__file__).with_name("aliases.yaml"))
SAME = _by_name(_WORDS["same"].items())
"""Names that mean exactly one of our settings."""
ANSWERS = _by_name((each["write"], each["names"]) for each in _WORDS["answers"])
"""Names that have no setting of the same meaning, and what to write instead."""
NOTES = {"optimizer.lr": "; where optimizer.name=muon (model=tiny), the matrices have optimizer.matrix_lr"}
"""What somebody who means a setting may not know of it."""
SCORED = {"in": "input", "model": "checkpoint", "out": "out", "explain": "explain", "max_length": "judge.max_length"}
"""What `score.py` calls its settings on the command line: ``in`` is no name that a field can have."""
BENCHMARKS = tuple(_read(Path(__file__).parents[1] / "benchmarks" / "catalogue.yaml"))
"""Public benchmarks that ``suite=`` names."""


def rewrite_aliases(words: Sequence[str], known: Collection[str], command: str) -> list[str]:
    """The words of a command line with our names in them; each change is printed to stderr.

    ``known`` are the settings and groups of the ``command``: a name that is one of them keeps its meaning, and a
    setting that the command lacks is not brought in. Raises ``ValueError`` with an answer of `ANSWERS`.
    """
    found = []
    for word in words:
        name, equals, value = word.partition("=")
        name = name.removeprefix("--")
        if "input" in known and name in SCORED and "schedule" not in known:
            found.append(f"{SCORED[name]}={hydra_text(value.strip(QUOTES))}" if equals else f"{name}=true")
            continue
        target = SAME.get(name, "")
        if target == "logger" and value.strip(QUOTES) in ("none", "[]"):
            value = "csv"  # the least that a run writes
        if equals and name not in known and (target in known or target.startswith("hydra.")):
            print(f"{command}: {word} is read as {target}={value}{NOTES.get(target, '')}", file=sys.stderr)
            word = f"{target}={value}"
        elif equals and name not in known and name in ANSWERS and "schedule" in known:
            raise ValueError(f"{name}: no such setting; {ANSWERS[name]}")
        found.append(word)
    return [each for word in found for each in _expanded(word, found)]


def _expanded(word: str, words: Sequence[str]) -> list[str]:
    """A word that stands for several settings: suites and loggers in a list, a backbone with what belongs to it."""
    name, _, value = word.partition("=")
    listed = re.sub(r"[\[\]\"' ]", "", value).split(",")
    if name == "suite" and {each.replace("-", "_") for each in listed} <= {*BENCHMARKS, "public"}:
        return [f"benchmarks=[{','.join(listed)}]".replace("-", "_")]
    if name == "suite" and all(map(SUITE.fullmatch, listed)):
        return [f"suite=[{','.join(listed)}]"]
    if name == "suite" and not set(listed) <= set(SUITES):
        there = [*SUITES, "public", *BENCHMARKS]
        hint = nearest(value.replace("-", "_"), there) or f"; there are {', '.join(there)}"
        raise ValueError(f"suite={value}: no such suite{hint} (D+ and D- name the two sides of suite D)")
    if name == "logger" and len(listed) > 1 and (value[0] == "[" or not MULTIRUN & set(words)):
        return [f"logger={listed[0]}", f"logger.kinds=[{','.join(listed)}]"]
    path = value.strip("'\"")
    if name == "model" and _is_backbone(path):
        return ["model=pretrained", f"model.path={hydra_text(path)}"]
    if name == "model.path" and path != "null" and not any(map(_names_model, words)):
        return ["model=pretrained", word]
    return [word]


def _names_model(word: str) -> bool:
    """Whether a word chooses an option of ``model``, as most experiments do."""
    name, _, value = word.partition("=")
    files = [config_dir() / "experiment" / f"{each}.yaml" for each in value.split(",")]
    other = name == "experiment" and any(not each.is_file() or "override /model:" in each.read_text() for each in files)
    return name == "model" or other


def _is_backbone(path: str) -> bool:
    """Whether the value of ``model=`` is a hub id or a folder, and no option of the group."""
    option = (config_dir() / "model" / f"{path}.yaml").is_file()
    return not option and "," not in path and ("/" in path or Path(path).is_dir())
