"""Rewrites words of a command line: names that users of TRL, Hugging Face and Lightning type, and short forms.

The latter are ``data=<path>``, ``resume=<run folder>`` and the run folder of several processes.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import yaml
from omegaconf import OmegaConf

from crm.config import (
    config_dir,
    hydra_text,
    hydra_value,
    nearest,
    option_names,
    schema,
    setting_names,
    taken_groups,
)
from crm.data.comparisons import SUITE, SUITES
from crm.io.files import typed_path
from crm.io.hub import PREFIX
from crm.io.rows import is_data_file

MULTIRUN = {"-m", "--multirun"}
QUOTES = "'\""


def _by_name(names: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name: meaning for meaning, listed in names for name in listed.split()}


def _read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


_WORDS = _read(Path(__file__).with_name("aliases.yaml"))
SAME = _by_name(_WORDS["same"].items())
"""Names that mean exactly one of our settings."""
ANSWERS = _by_name((answer, names) for names, answer in _WORDS["answers"].items())
"""Names that have no setting of the same meaning, and what to write instead."""
SCORED = {"in": "input", "model": "checkpoint", "out": "out", "explain": "explain", "max_length": "judge.max_length"}
"""What `score.py` calls its settings on the command line: ``in`` is no name that a field can have."""
BENCHMARKS = tuple(_read(Path(__file__).parents[1] / "benchmarks" / "catalogue.yaml"))
"""Public benchmarks that ``suite=`` names."""
ON, OFF = {"true", "yes", "on", "1"}, {"false", "no", "off", "0", "null", ""}
OF_ONE_RUN = ("run_dir", "resume", "overwrite")
NOT_TAKEN = (*OF_ONE_RUN, *(f"trainer.{name}" for name in ("name", "accelerator", "devices", "nodes")))
"""Settings that a resumed run does not take over: where it is, and the hardware, which may be another."""


def rewrite_all(words: Sequence[str], command: str, shown: str) -> list[str]:
    """The words with our names for settings and ``data=<path>`` understood; ``shown`` names the command in messages."""
    known = {*setting_names(schema(command)), *taken_groups(command)}
    return rewrite(rewrite_aliases(_with_files(words, known), known, shown))


def _with_files(words: Sequence[str], known: Collection[str]) -> list[str]:
    """The words with the settings of ``config=<YAML file or run folder>`` in front; typed settings and groups win."""
    chosen = [word for word in words if word.startswith(("config=", "experiment=", "debug="))]
    files = [Path(_value(word)).expanduser() for word in chosen if word.startswith("config=")]
    if files and len(chosen) > 1:
        raise ValueError(f"{' '.join(chosen)}: each chooses all settings; give one")
    typed = {each for word in words for name in [word.partition("=")[0]] for each in (name, SAME.get(name))}
    own = [word for file in files for word in setting_words(_settings(file, known), OF_ONE_RUN)]
    own = [word for word in own if word.partition(".")[0] not in typed]
    return [*own, *(word for word in words if not word.startswith("config="))]


def _settings(file: Path, known: Collection[str]) -> Any:
    """What a YAML file, or that of a run's folder, holds; ``ValueError`` for one that this command cannot read."""
    place = file / "config.yaml" if file.is_dir() else file
    if not place.is_file():
        raise ValueError(f"config={file}: no such file; give a run's folder or a YAML file of settings")
    settings = OmegaConf.to_container(OmegaConf.load(place))
    if not isinstance(settings, Mapping) or "defaults" in settings:
        raise ValueError(f"config={file}: no settings of a run; a file of conf/experiment is experiment={file.stem}")
    if "schedule" in settings and "schedule" not in known:
        raise ValueError(f"config={file}: settings of train.py; for its model, checkpoint={file}")
    return settings


def setting_words(settings: Any, left_out: Collection[str] = ()) -> list[str]:
    """Settings, those of a group as a mapping, as words: ``{"schedule": {"epochs": 3}}`` is ``schedule.epochs=3``."""
    groups = [(f"{name}.", own) if isinstance(own, Mapping) else ("", {name: own}) for name, own in settings.items()]
    leaves = {prefix + name: value for prefix, own in groups for name, value in own.items()}
    return [f"{name}={hydra_value(value)}" for name, value in leaves.items() if name not in left_out]


def rewrite_aliases(words: Sequence[str], known: Collection[str], command: str) -> list[str]:
    """The words of a command line with our names in them; each change is printed to stderr.

    ``known`` are the settings and groups of the ``command``: a name that is one of them keeps its meaning, and a
    setting that the command lacks is not brought in. Raises ``ValueError`` with an answer of `ANSWERS`.
    """
    found = []
    for word in words:
        name, equals, value = word.partition("=")
        name = name.removeprefix("--")
        if "input" in known and name in SCORED:
            found.append(f"{SCORED[name]}={hydra_text(value.strip(QUOTES))}" if equals else f"{name}=true")
            continue
        target = SAME.get(name, "")
        target = target if target in known else SAME.get(target, target)  # who does not train has model=<checkpoint>
        if target == "logger" and value.strip(QUOTES) in ("none", "[]"):
            value = "csv"  # the least that a run writes
        if equals and name not in known and (target in known or target.startswith("hydra.")):
            print(f"{command}: {word} is read as {target}={value}", file=sys.stderr)
            word = f"{target}={value}"
        elif equals and name not in known and name in ANSWERS and {"schedule", "weights"} & {*known}:
            raise ValueError(f"{name}: no such setting; {ANSWERS[name]}")
        found.append(word)
    return [each for word in found for each in _expanded(word, found)]


def _expanded(word: str, words: Sequence[str]) -> list[str]:
    """A word that stands for several settings: suites and loggers in a list, a backbone with what belongs to it."""
    name, _, value = word.partition("=")
    listed = re.sub(r"[\[\]\"' ]", "", value).split(",")
    if name == "suite" and {each.replace("-", "_") for each in listed} <= {*BENCHMARKS, "public"}:
        if typed := next((each for each in words if each.startswith(("data=", "data.path="))), None):
            raise ValueError(f"{word} {typed}: benchmarks read files under data.root; leave out {typed}")
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
    place = path and "," not in path and ("/" in path or Path(path).is_dir())
    if name == "model" and place and path not in option_names("model"):
        return ["model=pretrained", f"model.path={hydra_text(path)}"]
    if name == "bank" and place and (Path(path) / "bank.json").is_file():
        return ["bank=folder", f"bank.path={hydra_text(path)}"]
    if name == "model.path" and path != "null" and not any(map(_names_model, words)):
        return ["model=pretrained", word]
    return [word]


def _names_model(word: str) -> bool:
    """Whether a word chooses an option of ``model``, as most experiments do."""
    name, _, value = word.partition("=")
    files = [config_dir() / "experiment" / f"{each}.yaml" for each in value.split(",")]
    other = name == "experiment" and any(not each.is_file() or "override /model:" in each.read_text() for each in files)
    return "model" in (name, SAME.get(name)) or other


def rewrite(words: Sequence[str]) -> list[str]:
    """The words with ``data=<path>`` as ``data=file data.path="<path>"``; options of ``conf/data`` stay.

    In a sweep, paths between commas are a job each. Raises ``ValueError`` for a path that does not exist, and where
    ``data.path`` is given too.
    """
    return [new for word in words for new in (_data(word, words) if word.startswith("data=") else [word])]


def _data(word: str, words: Sequence[str]) -> list[str]:
    value = _value(word)
    values = [value] if Path(value).exists() or not MULTIRUN & set(words) else value.split(",")
    paths = [each for each in values if _is_path(each)]
    listed = [] if Path(value).exists() else value.strip("[]").split(",")
    if len(listed) > 1 and values == [value] and all(Path(each.strip()).exists() for each in listed):
        raise ValueError(f"{word}: one file or folder; put them into one, data=<folder>, or -m runs a job for each")
    if len(paths) < len(values):  # options, which Hydra knows
        return [word]
    if other := next((given for given in words if given.startswith("data.path=")), None):
        raise ValueError(f"{word} {other}: both name the data; leave one of them out")
    for path in paths:
        place = Path(path).expanduser()
        if not (path.startswith(PREFIX) or place.exists() or any(place.parent.glob(place.name))):
            raise ValueError(f"{word}: no such file or folder in {Path.cwd()}; check the path")
    shown = (hydra_value(str(Path(path).expanduser()) if path.startswith("~") else path) for path in paths)
    return ["data=file", f"data.path={','.join(shown)}"]


def _is_path(value: str) -> bool:
    """Whether it can only be a path: no option has its name, and it exists or looks like one."""
    if value in option_names("data") or value[:1] in ("", "["):
        return False
    return value.startswith(PREFIX) or "/" in value or is_data_file(value) or Path(value).expanduser().exists()


class FinishedError(Exception):
    """The run is over: there is nothing to go on with."""


def rewrite_resume(words: Sequence[str]) -> list[str]:
    """The words with ``resume=<run folder>`` as that folder and every setting of the run in it.

    Words typed beside it come last, so that they win. What Hydra wrote of the run before stays. Raises ``ValueError``
    for a folder that holds no run, and `FinishedError` for a run that has ended.
    """
    given = [_value(word) for word in words if word.startswith("resume=") and _value(word).lower() not in OFF]
    if not given:
        return list(words)
    if given[-1].lower() in ON:
        return [*words, *([] if MULTIRUN & set(words) else ["hydra.output_subdir=null"])]
    folder = Path(given[-1]).expanduser()
    folder = folder.parents[1] if folder.suffix == ".ckpt" else folder
    if not (folder / "config.yaml").is_file():
        found = "it holds no config.yaml of a run" if folder.is_dir() else "no such folder"
        raise ValueError(
            f"resume={folder}: {found}; give the folder of a training run, such as outputs/train/<date>/<time>"
        )
    if (folder / "summary.json").is_file():
        typed = [word for word in words if "=" in word and not word.startswith(("resume=", "hydra", "trainer"))]
        if typed:
            how = f"python train.py model={typed_path(folder / 'model')} data=<votes> hydra.run.dir=<new folder>"
            raise ValueError(f"{folder}: this run has ended; to train its model further: {how} {' '.join(typed)}")
        raise FinishedError(f"{folder}: this run has ended; next: python evaluate.py checkpoint={typed_path(folder)}")
    own = [f"hydra.run.dir={hydra_value(folder)}", "hydra.output_subdir=null", "resume=true"]
    own += setting_words(OmegaConf.to_container(OmegaConf.load(folder / "config.yaml")), NOT_TAKEN)
    return [*own, *(word for word in words if not word.startswith("resume="))]


def _value(word: str) -> str:
    return word.partition("=")[2].strip("'\"")


def rewrite_launched(words: Sequence[str], command: str, env: Mapping[str, str] = os.environ) -> list[str]:
    """The words with one run folder for all processes of torchrun or srun, and a log file for each.

    Hydra would name the folder after the time at which each process composed its settings. All get the time at which
    their torchrun started, or the id of their SLURM job. Raises ``ValueError`` where several machines run torchrun and
    ``hydra.run.dir`` is not given: they have no time in common.
    """
    torchrun = "TORCHELASTIC_RUN_ID" in env
    srun = "SLURM_PROCID" in env and env.get("SLURM_JOB_NAME") not in ("bash", "interactive")
    rank, size = ("RANK", "WORLD_SIZE") if torchrun else ("SLURM_PROCID", "SLURM_NTASKS")
    if not (torchrun or srun) or env.get(size, "1") == "1" or MULTIRUN & set(words):
        return list(words)
    more = [] if env[rank] == "0" else ["hydra.output_subdir=null", f"hydra.job.name={command}_{env[rank]}"]
    if any(word.startswith("hydra.run.dir=") for word in words):
        return [*words, *more]
    if not torchrun:
        name = f"slurm-{env['SLURM_JOB_ID']}-{env.get('SLURM_STEP_ID', '0')}"
    elif env.get("GROUP_WORLD_SIZE", "1") == "1":
        name = f"{datetime.fromtimestamp(psutil.Process(os.getppid()).create_time()):%Y-%m-%d/%H-%M-%S-%f}"
    else:
        raise ValueError("hydra.run.dir: not given; processes of several machines need one, hydra.run.dir=runs/mine")
    return [*words, f"hydra.run.dir=outputs/{command}/{name}", *more]
