"""What became of the jobs of a sweep. In: a sweep's folder. Out: every job with its settings, status and numbers.

A job that fails leaves its reason in ``failure.txt`` in its folder: whoever started it may sit in another process or
on another machine. A job is never missing: what the sweep had planned and did not start is listed too.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import OmegaConf

from crm.io.files import replace_file
from crm.sealed import read_sealed

FAILURE, SUMMARY, OVERRIDES, PLAN = "failure.txt", "summary.json", ".hydra/overrides.yaml", "multirun.yaml"
SUMMARY_FORMAT = 2
RESULTS = "results.json"
OUTCOMES = {"train": SUMMARY, "evaluate": RESULTS}
"""What a job of a command leaves when it has finished."""
NUMBERS = ("validation_loss", "validation_accuracy", "steps", "seconds")


@dataclass(frozen=True)
class SweepJob:
    """One job; ``status`` is ``finished``, ``failed``, ``unfinished`` or ``not started``, ``reason`` says why.

    ``numbers`` are those of `NUMBERS` (loss in nats, accuracy in [0, 1] or NaN, optimizer steps, seconds), empty unless
    it is a training that finished.
    """

    name: str
    """Its folder inside the sweep's."""
    overrides: Mapping[str, str]
    status: str
    reason: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    commit: str = ""


def note_failure(folder: Path, reason: str) -> None:
    """Leave one line on why the job in ``folder`` failed."""
    replace_file(folder / FAILURE, " ".join(reason.split()) + "\n")


def noted_failure(folder: Path) -> str:
    """What `note_failure` left, or nothing."""
    path = folder / FAILURE
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


def forget(folder: Path, *, summary: bool) -> None:
    """Remove what an earlier run left in ``folder``, so that it is not taken for the outcome of this one.

    Only the first of several ranks does so: another may have failed before this one comes here.
    """
    if is_first_rank():
        for name in (FAILURE, *OUTCOMES.values()) if summary else (FAILURE,):
            (folder / name).unlink(missing_ok=True)


def is_first_rank() -> bool:
    """Whether no launcher (torchrun, Lightning, SLURM) has numbered this process otherwise."""
    return all(os.environ.get(name, "0") == "0" for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID"))


def failed_jobs(root: Path) -> list[str]:
    """Names of the jobs under ``root`` that left a reason."""
    return sorted((str(path.parent.relative_to(root)) for path in root.rglob(FAILURE)), key=in_number_order)


def read_jobs(root: Path, command: str = "train") -> list[SweepJob]:
    """Every job of the sweep of ``command`` (see `OUTCOMES`) in ``root``, in the order of their numbers.

    A folder of single runs can be read as well; what was planned is known of grids only (``multirun.yaml``). Raises
    ``ValueError`` where there is no job.
    """
    if not root.is_dir():
        raise ValueError(f"{root}: no such folder; give a sweep's, such as multirun/{command}/<date>/<time>")
    jobs, started = [], Counter[tuple[str, ...]]()
    for file in root.rglob(OVERRIDES):
        words = tuple(map(str, OmegaConf.load(file)))
        started[words] += 1
        jobs.append(_job(file.parents[1], str(file.parents[1].relative_to(root)), words, command))
    there = {job.name for job in jobs}  # also what was started later by hand, in the folder that the sweep had planned
    for number, words in enumerate(planned(root / PLAN)):
        if started[words]:
            started[words] -= 1
        elif str(number) not in there:
            jobs.append(_job(root / str(number), str(number), words, command))
    if not jobs:
        raise ValueError(f"{root}: no job in it (no {OVERRIDES} in any folder); give the folder of a sweep")
    return sorted(jobs, key=lambda job: in_number_order(job.name))


def planned(plan: Path) -> list[tuple[str, ...]]:
    """The overrides of every job of a grid, from the ``multirun.yaml`` that Hydra writes before the first one starts.

    Empty without that file (other sweepers write none) or where the grid needs files to be listed (``glob``).
    """
    if not plan.is_file():
        return []
    settings: Any = OmegaConf.to_container(OmegaConf.load(plan), resolve=False)["hydra"]  # type: ignore[index, call-overload]
    params = settings["sweeper"].get("params") or {}
    words = [*(f"{key}={value}" for key, value in params.items()), *settings["overrides"]["task"]]
    try:
        (batch,) = BasicSweeper.split_arguments(OverridesParser.create().parse_overrides(words), None)
    except HydraException:
        return []
    return [tuple(job) for job in batch]


def in_number_order(name: str) -> list[tuple[int, int, str]]:
    """Sorting key under which 10 comes after 9."""
    parts = re.split(r"(\d+)", name)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part]


def differing(jobs: Sequence[SweepJob]) -> list[str]:
    """Settings whose values differ between jobs, in the order in which they were given."""
    keys = dict.fromkeys(key for job in jobs for key in job.overrides)
    return [key for key in keys if len({job.overrides.get(key) for job in jobs}) > 1]


def _job(folder: Path, name: str, words: Sequence[str], command: str) -> SweepJob:
    pairs = (word.lstrip("+").partition("=") for word in words)
    overrides = {key: value for key, _, value in pairs}
    reason = noted_failure(folder)
    if reason:
        return SweepJob(name, overrides, "failed", reason)
    if not folder.is_dir():
        return SweepJob(name, overrides, "not started", "the sweep ended before it, or has not come to it yet")
    if not (folder / OUTCOMES[command]).is_file():
        why = f"no {OUTCOMES[command]}: still running, or killed; its log: {folder / command}.log"
        return SweepJob(name, overrides, "unfinished", why)
    if command != "train":
        return SweepJob(name, overrides, "finished")
    try:
        summary = read_sealed(folder / SUMMARY, "run the job again", version=SUMMARY_FORMAT)
        numbers = {key: _finite(summary, key, folder / SUMMARY) for key in NUMBERS}
    except ValueError as error:
        return SweepJob(name, overrides, "failed", str(error))
    return SweepJob(name, overrides, "finished", "", numbers, str(summary.get("commit") or ""))


def _finite(summary: Mapping[str, Any], key: str, path: Path) -> float:
    value = summary.get(key)
    if key == "validation_accuracy" and value is None and key in summary:
        return math.nan  # every validation row is a tie
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{path}: {key}: expected a finite number, got {value!r:.80}")
    return value
