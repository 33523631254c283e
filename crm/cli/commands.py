"""Console entry points; a user's mistake ends with one sentence and exit code 2.

A job of a sweep that fails says so, leaves its reason in its folder, and the others go on; the sweep then ends with
exit code 2. Jobs may run in other processes, so that it is their folders that tell which of them failed. With
CRM_TRACEBACK=1 in the environment every mistake shows its traceback too.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import traceback
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from crm import __version__
from crm import config as settings
from crm.cli.aliases import rewrite_aliases
from crm.cli.help import ASKED, help_text, job_text, script, shows_job
from crm.cli.launched import rewrite_launched
from crm.cli.mistakes import MISTAKES, check_options, explain, taken_groups, with_lists
from crm.cli.resume import FinishedError, rewrite_resume
from crm.cli.sweep_end import end_of_sweep
from crm.cli.words import rewrite
from crm.config import config_dir
from crm.training.resume import AnotherRunError, check_unfinished
from crm.training.sweeps import (
    SweepFolder,
    begin_job,
    check_devices,
    entry_command,
    needs_own_process,
    note_failure,
    run_in_own_process,
    validation_loss_of,
)

if TYPE_CHECKING:
    from crm.dataset.prepare.config import PrepareConfig
    from crm.evaluation.config import EvaluateConfig
    from crm.leaderboard.bank.config import BankBuildConfig
    from crm.leaderboard.config import LeaderboardConfig
    from crm.page.config import AppConfig
    from crm.rewards.config import BestOfNConfig, ServeConfig
    from crm.training.config import TrainConfig

RESUMES = re.compile(r"\bresume=['\"]?(true|yes|on|1)\b", re.IGNORECASE)


def train() -> None:
    """``crm-train``: see ``conf/train.yaml``. A job's value for a sweeper that searches: its best validation loss."""
    command = entry_command()  # a job in another process would give that process's command
    if RESUMES.search(" ".join(sys.argv)) and not {"-m", "--multirun"} & set(sys.argv):
        sys.argv.append("hydra.output_subdir=null")  # what Hydra wrote of the run before stays, whatever is given now

    def task(config: TrainConfig) -> float:
        if HydraConfig.get().mode != RunMode.MULTIRUN:
            check_unfinished(config)
        check_devices(config)
        if needs_own_process(config.trainer.devices):
            return validation_loss_of(run_in_own_process(command))
        from crm.training.train import run_training

        return run_training(config).validation_loss

    _run("train", task)


def evaluate() -> None:
    """``crm-evaluate``: see ``conf/evaluate.yaml``."""
    command = entry_command()

    def task(config: EvaluateConfig) -> None:
        if needs_own_process(config.devices):
            run_in_own_process(command)
            return
        from crm.evaluation.run import run_evaluation

        run_evaluation(config)

    _run("evaluate", task)


def leaderboard() -> None:
    """``crm-leaderboard``: see ``conf/leaderboard.yaml``."""
    command = entry_command()

    def task(config: LeaderboardConfig) -> None:
        if needs_own_process(config.devices):
            run_in_own_process(command)
            return
        from crm.leaderboard.run import run_leaderboard

        board = run_leaderboard(config)
        if board.unanswered:
            raise ValueError(f"bank: {board.explain_unread()}; the same command asks for what is missing")

    _run("leaderboard", task)


def prepare() -> None:
    """``crm-prepare``: see ``conf/prepare.yaml``. ``--dry-run`` is another way to write ``dry_run=true``."""
    sys.argv = ["dry_run=true" if word == "--dry-run" else word for word in sys.argv]

    def task(config: PrepareConfig) -> None:
        from crm.dataset.prepare.run import run_prepare

        run_prepare(config)

    _run("prepare", task)


def app() -> None:
    """``crm-app``: see ``conf/app.yaml``."""

    def task(config: AppConfig) -> None:
        if find_spec("fastapi") is None:
            raise ValueError("app: its packages are not installed; pip install 'crm-leaderboard[app]'")
        from crm.page.run import run_app

        run_app(config)

    _run("app", task)


def serve() -> None:
    """``crm-serve``: see ``conf/serve.yaml``."""

    def task(config: ServeConfig) -> None:
        if find_spec("fastapi") is None:
            raise ValueError("serve: its packages are not installed; pip install 'crm-leaderboard[serve]'")
        from crm.rewards.server import run_server

        run_server(config)

    _run("serve", task)


def bank() -> None:
    """``crm-bank``: see ``conf/bank.yaml``."""

    def task(config: BankBuildConfig) -> None:
        from crm.leaderboard.bank.run import run_bank

        run_bank(config)

    _run("bank", task)


def best_of_n() -> None:
    """``crm-best-of-n``: see ``conf/best_of_n.yaml``."""

    def task(config: BestOfNConfig) -> None:
        from crm.rewards.best_of_n import run_best_of_n

        run_best_of_n(config)

    _run("best_of_n", task)


def _run(name: str, task: Callable[[Any], Any]) -> None:
    settings.register()
    schema = settings.schemas()[name]
    if "--version" in sys.argv[1:]:
        print(f"crm {__version__}")
        return
    if ASKED & set(sys.argv[1:]):
        _answer(name, schema, lambda: help_text(name, sys.argv[1:]))
        return
    _answer(name, schema, lambda: _understand(name, schema))
    if shows_job(sys.argv[1:]):
        _answer(name, schema, lambda: job_text(name, sys.argv[1:]))
        return
    SweepFolder.current = None
    failed: list[str] = []

    @hydra.main(version_base="1.3", config_path=str(config_dir()), config_name=name)
    def entry(composed: DictConfig) -> Any:
        in_sweep = HydraConfig.get().mode == RunMode.MULTIRUN
        folder = begin_job() if in_sweep or name != "prepare" else None
        try:
            return task(settings.checked(composed, schema))
        except Exception as error:
            if folder is not None and not isinstance(error, AnotherRunError):
                note_failure(folder, _reason(error, schema))
            # Caught here: beyond this point Hydra prints its own report of the error, and a sweep would stop.
            if not isinstance(error, MISTAKES) and not in_sweep:
                raise
            failed.append(name)
            _report(name, error, schema)
            return None

    # Hydra then raises what it finds wrong instead of exiting, and the sentence is made here.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    logging.raiseExceptions = False  # a full disk is told once, by what fails on it, not by every line of the log
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
    code = max(code, 2 * bool(failed), end_of_sweep(name))
    if code:
        sys.exit(code)


def _understand(name: str, schema: type) -> str:
    """Have ``sys.argv`` say what was meant, in the names of this project; nothing to print."""
    known = [*settings.setting_names(schema), *taken_groups(name)]
    words = rewrite(rewrite_aliases(sys.argv[1:], known, script(name)))
    if name == "train":
        words = rewrite_resume(words)
    if name in ("train", "evaluate", "leaderboard"):
        words = rewrite_launched(words, name)
    first = [word for word in words if word in ("-m", "--multirun")]  # Hydra wants options before settings
    sys.argv[1:] = [*first, *(with_lists(word) for word in words if word not in first)]
    return ""


def _answer(name: str, schema: type, text: Callable[[], str]) -> None:
    """Print ``text``; a mistake of the user ends the command."""
    try:
        print(text(), end="")
    except FinishedError as error:
        print(f"{script(name)}: {error}")
        sys.exit(0)
    except MISTAKES as error:
        _report(name, error, schema)
        sys.exit(2)


def _reason(error: Exception, schema: type) -> str:
    sentence = explain(error, schema)
    return sentence if isinstance(error, MISTAKES) else f"{type(error).__name__}: {sentence}"


def _report(name: str, error: Exception, schema: type) -> None:
    """The sentence; a traceback too for a defect, or where it was asked for."""
    if not isinstance(error, MISTAKES) or os.environ.get("CRM_TRACEBACK") == "1":
        traceback.print_exception(error)
    print(f"{script(name)}: {explain(error, schema)}", file=sys.stderr)
