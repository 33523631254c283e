"""Runs a command; a user's mistake ends with one sentence and exit code 2.

A job of a sweep that fails leaves its reason in its folder, and the others go on; the sweep then ends with exit code 2.
With CRM_TRACEBACK=1 in the environment every mistake shows its traceback too.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from crm import __version__
from crm import config as settings
from crm.cli.help import ASKED, help_text, job_text, script, shows_job
from crm.cli.mistakes import MISTAKES, check_options, explain
from crm.cli.words import MULTIRUN, FinishedError, rewrite_all, rewrite_launched, rewrite_resume
from crm.config import config_dir
from crm.training.resume import AnotherRunError, check_unfinished
from crm.training.sweeps import (
    FAILURE,
    SweepFolder,
    begin_job,
    check_devices,
    entry_command,
    in_number_order,
    needs_own_process,
    note_failure,
    run_in_own_process,
    validation_loss_of,
)

RUN = {
    "train": ("crm.training.train", "run_training"),
    "evaluate": ("crm.evaluation.run", "run_evaluation"),
    "leaderboard": ("crm.leaderboard.run", "run_leaderboard"),
    "prepare": ("crm.prepare.run", "run_prepare"),
    "bank": ("crm.leaderboard.bank.run", "run_bank"),
    "best_of_n": ("crm.rewards.best_of_n", "run_best_of_n"),
    "app": ("crm.page.run", "run_app"),
    "serve": ("crm.rewards.server", "run_server"),
}
"""Module and function of every command, which takes its checked settings."""
ON_DEVICES = ("train", "evaluate", "leaderboard")


def run_command(name: str) -> None:
    """Run the command ``name`` with the words of ``sys.argv``; exits with its code where that is not 0."""
    settings.register()
    command, schema = entry_command(), settings.schemas()[name]
    if "--version" in sys.argv[1:]:
        print(f"crm {__version__}")
        return
    if ASKED & set(sys.argv[1:]):
        _print(name, schema, lambda: help_text(name, sys.argv[1:]))
        return
    _print(name, schema, lambda: _understand(name))
    if shows_job(sys.argv[1:]):
        _print(name, schema, lambda: job_text(name, sys.argv[1:]))
        return
    SweepFolder.current = None
    failed: list[str] = []

    @hydra.main(version_base="1.3", config_path=str(config_dir()), config_name=name)
    def entry(composed: DictConfig) -> Any:
        in_sweep = HydraConfig.get().mode == RunMode.MULTIRUN
        folder = begin_job() if in_sweep or name != "prepare" else None
        try:
            return _run(name, settings.checked(composed, schema), command)
        except Exception as error:
            if folder is not None and not isinstance(error, AnotherRunError):
                kind = "" if isinstance(error, MISTAKES) else f"{type(error).__name__}: "
                note_failure(folder, kind + explain(error, schema))
            # Caught here: beyond this point Hydra prints its own report of the error, and a sweep would stop.
            if not isinstance(error, MISTAKES) and not in_sweep:
                raise
            failed.append(name)
            _report(name, error, schema)
            return None

    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises what it finds wrong instead of exiting
    logging.raiseExceptions = False  # a full disk is reported once, not by every line of the log
    code = 0
    try:
        check_options(sys.argv[1:])
        entry()
    except KeyboardInterrupt as stop:
        print(f"{script(name)}: {str(stop) or 'stopped; what was written stays'}", file=sys.stderr)
        code = 130
    except Exception as error:
        if "srun" in str(error) and SweepFolder.current is not None:
            error = ValueError("hydra/launcher=slurm: no srun here; run it where SLURM is, or leave out hydra/launcher")
        if not isinstance(error, MISTAKES) and SweepFolder.current is None:
            raise
        _report(name, error, schema)
        code = 2
    code = max(code, 2 * bool(failed), _end_of_sweep(name))
    if code:
        sys.exit(code)


def _run(name: str, config: Any, command: Sequence[str]) -> float | None:
    """One job; a training's value for a sweeper that searches is its best validation loss."""
    if name == "train":
        if HydraConfig.get().mode != RunMode.MULTIRUN:
            check_unfinished(config)
        check_devices(config)
    if name in ON_DEVICES and needs_own_process(config.trainer.devices if name == "train" else config.devices):
        folder = run_in_own_process(command)
        return validation_loss_of(folder) if name == "train" else None
    if name in ("app", "serve") and find_spec("fastapi") is None:
        raise ValueError(f"{name}: its packages are not installed; pip install 'crm-leaderboard[{name}]'")
    module, function = RUN[name]
    outcome = getattr(import_module(module), function)(config)
    if name == "leaderboard" and outcome.unanswered:
        raise ValueError(f"bank: {outcome.explain_unread()}")
    return float(outcome.validation_loss) if name == "train" else None


def _understand(name: str) -> str:
    """Have ``sys.argv`` say what was meant, in the names of this project; nothing to print."""
    words = ["dry_run=true" if name == "prepare" and word == "--dry-run" else word for word in sys.argv[1:]]
    words = rewrite_all(words, name, script(name))
    words = rewrite_resume(words) if name == "train" else words
    words = rewrite_launched(words, name) if name in ON_DEVICES else words
    sys.argv[1:] = sorted(words, key=lambda word: word not in MULTIRUN)  # Hydra wants options before settings
    return ""


def _print(name: str, schema: type, text: Callable[[], str]) -> None:
    """Print ``text``; a mistake of the user ends the command."""
    try:
        print(text(), end="")
    except FinishedError as error:
        print(f"{script(name)}: {error}")
        sys.exit(0)
    except MISTAKES as error:
        _report(name, error, schema)
        sys.exit(2)


def _report(name: str, error: Exception, schema: type) -> None:
    """The sentence; a traceback too for a defect, or where it was asked for."""
    if not isinstance(error, MISTAKES) or os.environ.get("CRM_TRACEBACK") == "1":
        traceback.print_exception(error)
    print(f"{script(name)}: {explain(error, schema)}", file=sys.stderr)


def _end_of_sweep(name: str) -> int:
    """Write and print the tables of a sweep of trainings or evaluations, name the jobs that failed; the exit code."""
    folder = SweepFolder.current
    if folder is None or not folder.is_dir():
        return 0
    failed = sorted((str(file.parent.relative_to(folder)) for file in folder.rglob(FAILURE)), key=in_number_order)
    if name in ("train", "evaluate") and any(folder.rglob(".hydra")):
        if name == "train":
            from crm.training.sweep_table import write_sweep_tables as write

            tables = ("sweep.md", "seeds.md")
        else:
            from crm.evaluation.judge_table import write_tables_of_judges as write

            tables = ("judges.md", "paired.md")
        failed = [job.name for job in write(folder) if job.status != "finished"]
        written = [path for path in map(Path(folder).joinpath, tables) if path.is_file()]
        for path in written:
            print(f"\n{path.read_text(encoding='utf-8')}")
        print(f"{script(name)}: the tables of this sweep: {', '.join(map(str, written))}")
    if failed:
        print(f"{script(name)}: {len(failed)} jobs of this sweep failed: {', '.join(failed)}", file=sys.stderr)
    return 2 if failed else 0
