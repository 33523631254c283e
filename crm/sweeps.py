"""One job of a sweep on several devices. In: Hydra's description of the job. Out: the same job as a process of its own.

Lightning starts the other ranks with the command line of the parent. In a sweep that line says ``-m``, and every rank
would run the whole sweep again, in folders of its own (Lightning #16694). A process of its own per job has a command
line without ``-m``, frees its devices when it ends, and leaves the next job a clean start.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode

NOT_PASSED_ON = ("hydra.mode", "hydra.run.", "hydra.sweep", "hydra.launcher", "hydra/launcher", "hydra.output_subdir")


def needs_own_process(devices: int) -> bool:
    """Whether this is a job of a sweep whose other ranks Lightning would start."""
    return HydraConfig.get().mode == RunMode.MULTIRUN and devices > 1


def run_in_own_process() -> None:
    """Run the current job of a sweep and wait for it. Raises ``ValueError`` where it fails."""
    hydra = HydraConfig.get()
    folder = str(hydra.runtime.output_dir)
    overrides = [*hydra.overrides.task, *(word for word in hydra.overrides.hydra if passed_on(word))]
    command = [*entry_command(), *single_run(overrides, folder, str(hydra.job.name))]
    code = subprocess.run(command, cwd=hydra.runtime.cwd, check=False).returncode  # noqa: S603 - own command, no shell
    if code:
        raise ValueError(f"job {hydra.job.num} ended with exit code {code}; its log is in {folder}")


def passed_on(override: str) -> bool:
    """Whether an override of Hydra's own settings still means the same in a single run."""
    return not override.lstrip("+~").startswith(NOT_PASSED_ON)


def single_run(overrides: Sequence[str], folder: str, job_name: str) -> list[str]:
    """The command line of one job as a single run in ``folder``, whose ``.hydra`` the sweep has written already."""
    quoted = folder.replace("\\", "\\\\").replace("'", "\\'")
    return [*overrides, f"hydra.run.dir='{quoted}'", "hydra.output_subdir=null", f"hydra.job.name={job_name}"]


def entry_command() -> list[str]:
    """How this process was started, without its arguments."""
    import __main__

    spec = getattr(__main__, "__spec__", None)
    return [sys.executable, str(Path(sys.argv[0]).resolve())] if spec is None else [sys.executable, "-m", spec.name]
