"""Console entry points. In: command-line overrides. Out: a run folder; for a user's mistake one sentence and exit 2.

A job of a sweep that fails says so and the others go on; the sweep then ends with exit code 2. With CRM_TRACEBACK=1 in
the environment every mistake shows its traceback too.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from crm import config as settings
from crm.config import TrainConfig, config_dir
from crm.mistakes import MISTAKES, explain
from crm.sweeps import needs_own_process, run_in_own_process


def train() -> None:
    """``crm-train``: see ``conf/train.yaml``."""

    def task(config: TrainConfig) -> None:
        if needs_own_process(config.trainer.devices):
            run_in_own_process()
            return
        from crm.training import run_training

        run_training(config)

    _run("train", task)


def evaluate() -> None:
    """``crm-evaluate``: see ``conf/evaluate.yaml``."""

    def task(config: settings.EvaluateConfig) -> None:
        if needs_own_process(config.devices):
            run_in_own_process()
            return
        from crm.evaluation.run import run_evaluation

        run_evaluation(config)

    _run("evaluate", task)


def leaderboard() -> None:
    """``crm-leaderboard``: see ``conf/leaderboard.yaml``."""

    def task(config: settings.LeaderboardConfig) -> None:
        if needs_own_process(config.devices):
            run_in_own_process()
            return
        from crm.leaderboard.run import run_leaderboard

        run_leaderboard(config)

    _run("leaderboard", task)


def prepare() -> None:
    """``crm-prepare``: see ``conf/prepare.yaml``. ``--dry-run`` is another way to write ``dry_run=true``."""
    sys.argv = ["dry_run=true" if word == "--dry-run" else word for word in sys.argv]

    def task(config: settings.PrepareConfig) -> None:
        from crm.prepare.run import run_prepare

        run_prepare(config)

    _run("prepare", task)


def _run(name: str, task: Callable[[Any], None]) -> None:
    settings.register()
    schema = settings.SCHEMAS[name]
    failed: list[str] = []

    @hydra.main(version_base="1.3", config_path=str(config_dir()), config_name=name)
    def entry(composed: DictConfig) -> None:
        try:
            task(settings.checked(composed, schema))
        except Exception as error:
            # Caught here: beyond this point Hydra prints its own report of the error, and a sweep would stop.
            in_sweep = HydraConfig.get().mode == RunMode.MULTIRUN
            if not isinstance(error, MISTAKES) and not in_sweep:
                raise
            failed.append(str(HydraConfig.get().job.num) if in_sweep else "")
            _tell(name, error, schema)

    # Hydra then raises what it finds wrong instead of exiting, and the sentence is made here.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        entry()
    except MISTAKES as error:
        failed.append("")
        _tell(name, error, schema)
    except KeyboardInterrupt:
        print(f"crm-{name}: stopped; what was written stays", file=sys.stderr)
        sys.exit(130)
    if failed:
        if failed[0]:
            print(f"crm-{name}: {len(failed)} jobs of this sweep failed: {', '.join(failed)}", file=sys.stderr)
        sys.exit(2)


def _tell(name: str, error: Exception, schema: type) -> None:
    """The sentence; a traceback too for a defect, or where it was asked for."""
    if not isinstance(error, MISTAKES) or os.environ.get("CRM_TRACEBACK") == "1":
        traceback.print_exception(error)
    print(f"crm-{name}: {explain(error, schema)}", file=sys.stderr)
