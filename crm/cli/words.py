"""Rewrites words of a command line: ``data=<path>``, ``resume=<run folder>``, the run folder of several processes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
from omegaconf import OmegaConf

from crm.cli.aliases import MULTIRUN, rewrite_aliases
from crm.cli.mistakes import option_names, taken_groups
from crm.config import hydra_value, schema, setting_names
from crm.io.files import typed_path
from crm.io.hub import PREFIX
from crm.io.rows import is_data_file

ON, OFF = {"true", "yes", "on", "1"}, {"false", "no", "off", "0", "null", ""}
NOT_TAKEN = (
    *("run_dir", "resume", "overwrite"),
    *(f"trainer.{name}" for name in ("name", "accelerator", "devices", "nodes")),
)
"""Settings that a resumed run does not take over: where it is, and the hardware, which may be another."""


def rewrite_all(words: Sequence[str], command: str, shown: str) -> list[str]:
    """The words with our names for settings and ``data=<path>`` understood; ``shown`` names the command in messages."""
    known = {*setting_names(schema(command)), *taken_groups(command)}
    return rewrite(rewrite_aliases(words, known, shown))


def rewrite(words: Sequence[str]) -> list[str]:
    """The words with ``data=<path>`` as ``data=file data.path="<path>"``; options of ``conf/data`` stay.

    In a sweep, paths between commas are a job each. Raises ``ValueError`` for a path that does not exist, for paths
    beside options, and where ``data.path`` is given too.
    """
    return [new for word in words for new in (_data(word, words) if word.startswith("data=") else [word])]


def _data(word: str, words: Sequence[str]) -> list[str]:
    value = _value(word)
    values = [value] if Path(value).exists() or not MULTIRUN & set(words) else value.split(",")
    paths = [each for each in values if _is_path(each)]
    if not paths:
        return [word]
    if len(paths) < len(values):
        option = next(each for each in values if each not in paths)
        raise ValueError(f"{word}: {paths[0]} is a path and {option} an option; sweep over one kind at a time")
    if other := next((given for given in words if given.startswith("data.path=")), None):
        raise ValueError(f"{word} {other}: both name the data; leave one of them out")
    return ["data=file", f"data.path={','.join(_path(word, path) for path in paths)}"]


def _is_path(value: str) -> bool:
    """Whether it can only be a path: no option has its name, and it exists or looks like one."""
    if value in option_names("data") or value[:1] in ("", "["):
        return False
    return value.startswith(PREFIX) or "/" in value or is_data_file(value) or Path(value).expanduser().exists()


def _path(word: str, path: str) -> str:
    """A path that exists, as Hydra takes it."""
    place = Path(path).expanduser()
    if not (path.startswith(PREFIX) or place.exists() or any(place.parent.glob(place.name))):
        raise ValueError(f"{word}: no such file or folder in {Path.cwd()}; check the path")
    return hydra_value(str(place) if path.startswith("~") else path)


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
    if not (folder / "config.yaml").is_file():
        found = "it holds no config.yaml of a run" if folder.is_dir() else "no such folder"
        raise ValueError(
            f"resume={folder}: {found}; give the folder of a training run, such as outputs/train/<date>/<time>"
        )
    if (folder / "summary.json").is_file():
        raise FinishedError(f"{folder}: this run has ended; next: python evaluate.py checkpoint={typed_path(folder)}")
    settings: Any = OmegaConf.to_container(OmegaConf.load(folder / "config.yaml"))
    own = [f"hydra.run.dir={hydra_value(folder)}", "hydra.output_subdir=null", "resume=true"]
    for group, value in settings.items():
        leaves = {f"{group}.{key}": item for key, item in value.items()} if isinstance(value, dict) else {group: value}
        own += [f"{name}={hydra_value(item)}" for name, item in leaves.items() if name not in NOT_TAKEN]
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
