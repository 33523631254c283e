"""Processes that torchrun or srun has started: one run folder for all of them, and one log file for each."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime

import psutil


def rewrite_launched(words: Sequence[str], command: str, env: Mapping[str, str] = os.environ) -> list[str]:
    """The words of the ``command`` with what a process among several needs; alone, as they are.

    Hydra would name the run folder after the time at which each process composed its settings. All get the time at
    which their torchrun started, or the id of their SLURM job. Raises ``ValueError`` where several machines run
    torchrun and ``hydra.run.dir`` is not given: they have no time in common.
    """
    found = list(words)
    rank, size = _place(env)
    if size == 1 or {"-m", "--multirun"} & set(words):
        return found
    if not any(word.startswith("hydra.run.dir=") for word in words):
        found.append(f"hydra.run.dir={_folder(command, env)}")
    if rank:
        found += ["hydra.output_subdir=null", f"hydra.job.name={command}_{rank}"]
    return found


def _place(env: Mapping[str, str]) -> tuple[int, int]:
    """Rank and number of processes."""
    if "TORCHELASTIC_RUN_ID" in env:
        return int(env["RANK"]), int(env["WORLD_SIZE"])
    interactive = env.get("SLURM_JOB_NAME") in ("bash", "interactive")
    if "SLURM_PROCID" in env and not interactive:
        return int(env["SLURM_PROCID"]), int(env.get("SLURM_NTASKS", "1"))
    return 0, 1


def _folder(command: str, env: Mapping[str, str]) -> str:
    if "TORCHELASTIC_RUN_ID" not in env:
        return f"outputs/{command}/slurm-{env['SLURM_JOB_ID']}-{env.get('SLURM_STEP_ID', '0')}"
    if env.get("GROUP_WORLD_SIZE", "1") != "1":
        raise ValueError("hydra.run.dir: not given; processes of several machines need one, hydra.run.dir=runs/mine")
    started = datetime.fromtimestamp(psutil.Process(os.getppid()).create_time())
    return f"outputs/{command}/{started:%Y-%m-%d}/{started:%H-%M-%S-%f}"
