"""Jobs of a sweep: how each runs, where needed as a process of its own, and how it ended.

Lightning starts the other ranks with the command line of the parent. In a sweep that line says ``-m``, and every rank
would run the whole sweep again (Lightning #16694): a process of its own per job has a command line without ``-m``. A
job that fails leaves its reason in ``failure.txt`` in its folder, since its process may run on another machine.
"""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from crm.config import hydra_text
from crm.io.files import replace_file
from crm.training.resume import SUMMARY

NOT_PASSED_ON = (
    *("hydra.mode", "hydra.run.", "hydra.sweep", "hydra/sweeper", "hydra.launcher", "hydra/launcher"),
    "hydra.output_subdir",
)
"""Settings of Hydra that mean something else in a single run than in a sweep."""
FAILURE, OVERRIDES = "failure.txt", ".hydra/overrides.yaml"
OUTCOMES = {"train": SUMMARY, "evaluate": "results.json"}
"""What a job of a command leaves when it has finished."""
NUMBERS = ("validation_loss", "validation_accuracy", "validation_n", "steps", "seconds")


class SweepFolder(Callback):
    """Remembers, in the process that starts a sweep, where that sweep writes; ``current`` is None in a single run."""

    current: Path | None = None

    def on_multirun_start(self, config: DictConfig, **kwargs: Any) -> None:
        """Hydra calls this before the first job."""
        SweepFolder.current = Path(str(config.hydra.sweep.dir)).absolute()


def begin_job() -> Path:
    """The folder of the current job, from which the first rank removes how an earlier one failed or was evaluated."""
    hydra = HydraConfig.get()
    folder = Path(str(hydra.runtime.output_dir))
    if is_first_rank():
        for name in (FAILURE, *((OUTCOMES["evaluate"],) if hydra.mode == RunMode.MULTIRUN else ())):
            (folder / name).unlink(missing_ok=True)
    return folder


def is_first_rank() -> bool:
    """Whether no launcher (torchrun, Lightning, SLURM) has numbered this process otherwise."""
    return all(os.environ.get(name, "0") == "0" for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID"))


def note_failure(folder: Path, reason: str) -> None:
    """Leave one line on why the job in ``folder`` failed."""
    replace_file(folder / FAILURE, " ".join(reason.split()) + "\n")


def noted_failure(folder: Path) -> str:
    """What `note_failure` left, or nothing."""
    path = folder / FAILURE
    return path.read_text(encoding="utf-8").strip() if path.is_file() else ""


def needs_own_process(devices: int | str) -> bool:
    """Whether this is a job of a sweep with ranks that Lightning would start, or with other jobs beside it."""
    hydra = HydraConfig.get()
    if hydra.mode != RunMode.MULTIRUN:
        return False
    if not hydra.launcher._target_.endswith("BasicLauncher"):
        return True
    if devices == "auto":
        import torch

        devices = torch.cuda.device_count()
    return int(devices) > 1


def run_in_own_process(entry: Sequence[str]) -> Path:
    """Run the current job with the command ``entry`` and wait for it; its folder. Raises ``ValueError`` on failure."""
    hydra = HydraConfig.get()
    folder = Path(str(hydra.runtime.output_dir))
    own = [word for word in hydra.overrides.hydra if not word.lstrip("+~").startswith(NOT_PASSED_ON)]
    place = [f"hydra.run.dir={hydra_text(str(folder))}", "hydra.output_subdir=null", f"hydra.job.name={hydra.job.name}"]
    words = [*hydra.overrides.task, *own, *place]
    code = subprocess.run([*entry, *words], cwd=hydra.runtime.cwd).returncode  # noqa: S603
    if code:
        ended = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        memory = " (out of memory?)" if -code == signal.SIGKILL else ""
        raise ValueError(noted_failure(folder) or f"job {hydra.job.num} {ended}{memory}; its log is in {folder}")
    return folder


def entry_command() -> list[str]:
    """How this process was started, without its arguments; to be asked in the process that starts a sweep."""
    import __main__

    spec = getattr(__main__, "__spec__", None)
    return [sys.executable, str(Path(sys.argv[0]).resolve())] if spec is None else [sys.executable, "-m", spec.name]


def validation_loss_of(folder: Path) -> float:
    """The best validation loss of the training run in ``folder``, in nats."""
    if not is_first_rank():
        return float("nan")  # the first one writes the summary, maybe later
    return float(json.loads((folder / SUMMARY).read_text(encoding="utf-8"))["validation_loss"])


@dataclass(frozen=True)
class SweepJob:
    """One job; ``status`` is ``finished``, ``failed`` or ``unfinished``, ``reason`` says why.

    ``numbers`` are those of `NUMBERS`, empty unless it is a training that finished.
    """

    name: str
    """Its folder inside the sweep's."""
    overrides: Mapping[str, str]
    status: str
    reason: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    commit: str = ""


def read_jobs(root: Path, command: str = "train") -> list[SweepJob]:
    """Every job of the sweep of ``command`` in ``root``, by number. Raises ``ValueError`` where there is none."""
    jobs = [_job(root, file, command) for file in root.rglob(OVERRIDES)]
    if not jobs:
        raise ValueError(f"{root}: no job of a sweep in it (no {OVERRIDES} in any folder)")
    return sorted(jobs, key=lambda job: in_number_order(job.name))


def in_number_order(name: str) -> list[tuple[int, int, str]]:
    """Sorting key under which 10 comes after 9."""
    parts = re.split(r"(\d+)", name)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part]


def differing(jobs: Sequence[SweepJob]) -> list[str]:
    """Settings whose values differ between jobs, in the order in which they were given."""
    keys = dict.fromkeys(key for job in jobs for key in job.overrides)
    return [key for key in keys if len({job.overrides.get(key) for job in jobs}) > 1]


def _job(root: Path, file: Path, command: str) -> SweepJob:
    folder = file.parents[1]
    pairs = (str(word).lstrip("+").partition("=") for word in OmegaConf.load(file))
    name, overrides = str(folder.relative_to(root)), {key: value for key, _, value in pairs}
    outcome = folder / OUTCOMES[command]
    if reason := noted_failure(folder):
        return SweepJob(name, overrides, "failed", reason)
    if not outcome.is_file():
        why = f"no {outcome.name}: still running, or killed; its log: {folder / command}.log"
        return SweepJob(name, overrides, "unfinished", why)
    if command != "train":
        return SweepJob(name, overrides, "finished")
    summary = json.loads(outcome.read_text(encoding="utf-8"))
    summary["validation_n"] = summary["counts"]["validation_decided"]
    numbers = {key: math.nan if summary[key] is None else summary[key] for key in NUMBERS}  # an accuracy of ties
    return SweepJob(name, overrides, "finished", "", numbers, str(summary.get("commit") or ""))
