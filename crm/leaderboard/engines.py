"""Several workers at one index. In: the settings of a ranking. Out: shards on disk, made by an engine that exists.

``local`` is processes of this machine, ``slurm`` jobs of a cluster (submitit), ``ray`` tasks of a Ray cluster. All see
one folder. Each worker begins elsewhere and goes on until nothing is missing, so that one that is killed costs time
and no shard; what all of them leave is made by whoever asked.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import torch
from omegaconf import DictConfig, OmegaConf

from crm.config import checked
from crm.io.processes import Processes
from crm.judges import open_judge
from crm.leaderboard.bank.opening import open_bank
from crm.leaderboard.bank_judge import index_bank
from crm.leaderboard.config import EngineConfig, LeaderboardConfig

log = logging.getLogger(__name__)
_MISTAKE = re.compile(r"\w*(Error|Exception|Interrupt)\b")
Share = Callable[[int], None]
"""What the worker of that number does."""


def build_elsewhere(config: LeaderboardConfig) -> None:
    """Have the workers of ``config.engine`` build the index; those that end early are named in the log.

    Raises ``ValueError`` where the engine is not installed or cannot be had.
    """
    engine = config.engine
    share = partial(build_share, asdict(config), engine.workers)
    ended = [why for why in ENGINES[engine.name](share, engine, Path(config.run_dir) / "engine") if why]
    if ended:
        log.warning(
            "engine=%s: %d of %d workers ended early (%s); what they left is made here",
            engine.name,
            len(ended),
            engine.workers,
            ended[0],
        )


def build_share(settings: dict[str, Any], workers: int, worker: int) -> None:
    """What one worker does: the whole index, beginning at its own part of what is missing."""
    merged = OmegaConf.merge(OmegaConf.structured(LeaderboardConfig), settings)
    config = checked(cast(DictConfig, merged), LeaderboardConfig)
    torch.set_num_threads(config.threads or max(1, len(os.sched_getaffinity(0)) // workers))
    bank = open_bank(config.bank).select(config.topics or None)
    opened = open_judge(config)
    number: Any = SimpleNamespace(global_rank=worker, world_size=workers)
    index_bank(opened.judge, bank, opened.predictions, progress=False, processes=Processes(number))


def on_this_machine(share: Share, engine: EngineConfig, _folder: Path) -> list[str]:
    """Processes; why each ended early, or nothing."""
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=share, args=(number,), daemon=True) for number in range(engine.workers)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return [f"exit code {worker.exitcode}" if worker.exitcode else "" for worker in workers]


def on_slurm(share: Share, engine: EngineConfig, folder: Path) -> list[str]:
    """Jobs of an array, whose logs are in ``folder``; why each failed, or nothing."""
    try:
        import submitit
    except ImportError:
        raise ValueError("engine=slurm: needs submitit: pip install 'crm-leaderboard[sweeps]'") from None
    try:
        executor = submitit.AutoExecutor(folder, cluster=engine.cluster)
    except RuntimeError as error:
        raise ValueError(f"engine=slurm: {error}; start it where sbatch is, or use engine=local") from None
    executor.update_parameters(
        name="crm-index",
        timeout_min=engine.timeout_min,
        cpus_per_task=engine.cpus,
        gpus_per_node=engine.gpus,
        mem_gb=engine.mem_gb,
        slurm_partition=engine.partition,
    )
    jobs = executor.map_array(share, range(engine.workers))
    return [_why(job.exception()) for job in jobs]


def on_ray(share: Share, engine: EngineConfig, _folder: Path) -> list[str]:
    """Tasks of a cluster, or of one that is started here; Ray starts those anew whose process died."""
    try:
        import ray
    except ImportError:
        raise ValueError("engine=ray: needs ray: pip install 'crm-leaderboard[ray]'") from None
    here = {} if engine.cluster else {"num_cpus": engine.workers * engine.cpus}
    try:
        ray.init(address=engine.cluster, include_dashboard=False, log_to_driver=False, **here)
    except (ConnectionError, ValueError) as error:
        raise ValueError(f"engine.cluster={engine.cluster}: {str(error).splitlines()[0]}") from None
    try:
        task = ray.remote(num_cpus=engine.cpus, num_gpus=engine.gpus, max_retries=3)(lambda number: share(number))
        started = [task.remote(number) for number in range(engine.workers)]
        return [_why(_failure(ray, one)) for one in started]
    finally:
        ray.shutdown()


def _failure(ray: Any, started: Any) -> Exception | None:
    try:
        ray.get(started)
    except ray.exceptions.RayError as error:
        return cast(Exception, error)
    return None


def _why(failure: Exception | None) -> str:
    """The line of a remote traceback that says what went wrong."""
    lines = str(failure or "").strip().splitlines()
    return next((line for line in reversed(lines) if _MISTAKE.match(line)), lines[0] if lines else "")


ENGINES: dict[str, Callable[[Share, EngineConfig, Path], Sequence[str]]] = {
    "local": on_this_machine,
    "slurm": on_slurm,
    "ray": on_ray,
}
