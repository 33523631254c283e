"""Runs a command; a user's mistake ends with one sentence and exit code 2.

A job of a sweep that fails leaves its reason in its folder, and the others go on; the sweep then ends with exit code 2.
With CRM_TRACEBACK=1 in the environment every mistake shows its traceback too. ``--help`` and ``--cfg job`` are our own:
Hydra's help lists every group of ``conf/``, whichever command takes it, and takes two seconds to find them.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from textwrap import fill
from typing import Any

import hydra
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from crm import __version__
from crm import config as settings
from crm.cli.mistakes import MISTAKES, check_options, explain, undashed
from crm.cli.words import MULTIRUN, SCORED, FinishedError, rewrite_all, rewrite_launched, rewrite_resume
from crm.config import compose, config_dir, hydra_value, option_names, schema, setting_names, taken_groups
from crm.training.resume import AnotherRunError, check_unfinished, finished_before
from crm.training.sweeps import (
    FAILURE,
    SweepFolder,
    begin_job,
    entry_command,
    in_number_order,
    needs_own_process,
    note_failure,
    run_in_own_process,
    validation_loss_of,
)

WIDTH = 120


def script(command: str) -> str:
    """The name under which a command is installed."""
    return "crm-bank score" if command == "bank_score" else f"crm-{command.replace('_', '-')}"


def help_text(command: str, words: Sequence[str]) -> str:
    """Groups with their options, and all settings as ``words``, the rest of the command line, would leave them."""
    groups = "\n".join(
        fill(f"{group}: {', '.join(option_names(group))}", WIDTH, subsequent_indent="    ")
        for group in taken_groups(command)
    )
    overrides = _search_path(words)
    for word in undashed(words):
        with suppress(ValueError):  # such as a file that is not there: the help is shown without it
            overrides += rewrite_all([word], command, script(command)) if "=" in word and word[0] != "-" else []
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        settings = OmegaConf.to_yaml(hydra_compose(command, overrides=overrides))
    purpose = (config_dir() / f"{command}.yaml").read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
    short = ", ".join(f"{name}= for {meaning}=" for name, meaning in SCORED.items() if name != meaning)
    typed = f"Short: {short}\n\n" if command == "score" else ""
    return (
        f"{script(command)}: {purpose}\nHydra composes its settings; docs/configuration.md says what they do\n\n"
        f"== Groups ==\nChoose an option of each with group=option\n\n{groups}\n\n"
        f"== Settings ==\nChange any of them with name=value; several values, with -m, are a sweep\n\n{typed}"
        f"{settings}\n"
        "Use --hydra-help for what Hydra itself can do\n"
    )


def _options(words: Sequence[str]) -> Namespace:
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-c", "--cfg")
    parser.add_argument("-cd", "--config-dir")
    parser.add_argument("-p", "--package")
    parser.add_argument("-m", "--multirun", action="store_true")
    return parser.parse_known_args(words)[0]


def _search_path(words: Sequence[str]) -> list[str]:
    """The folder of ``--config-dir`` as a setting, for `hydra.compose` and for jobs in processes of their own."""
    folder = _options(words).config_dir
    return [f"hydra.searchpath={hydra_value([f'file://{Path(folder).resolve()}'])}"] if folder else []


def job_text(command: str, words: Sequence[str]) -> str:
    """The settings of a run, checked and with what ``auto`` became.

    Hydra would print what it composed, unchecked. Raises ``ValueError`` for what the run would.
    """
    overrides = _search_path(words) + [word for word in words if "=" in word and not word.startswith(("-", "hydra"))]
    folders = (word.partition("=")[2] for word in words if word.startswith("hydra.run.dir="))
    writes = "run_dir" in setting_names(schema(command))
    place = Path(next(folders, "outputs").strip("'\"")) if writes else None
    return OmegaConf.to_yaml(OmegaConf.structured(compose(command, overrides, place)))


TABLES = {
    "train": ("crm.training.sweep_table:write_sweep_tables", "sweep.md", "seeds.md"),
    "evaluate": ("crm.evaluation.compare:write_sweep_tables", "judges.md", "paired.md"),
}
"""What writes the tables of a sweep, and their names."""
ON_DEVICES = ("train", "evaluate", "leaderboard", "score", "bank_score")


def run_command(name: str) -> None:
    """Run the command ``name`` with the words of ``sys.argv``; exits with its code where that is not 0."""
    known = schema(name)
    named = (word for word in sys.argv[1:] if word.startswith("--config-name"))
    command = [*entry_command(), *named, *_search_path(sys.argv[1:])]
    SweepFolder.current = None
    code, failed = 0, False

    @hydra.main(version_base="1.3", config_path=str(config_dir()), config_name=name)
    def entry(composed: DictConfig) -> Any:
        nonlocal failed
        in_sweep = HydraConfig.get().mode == RunMode.MULTIRUN
        folder = begin_job() if in_sweep or name != "prepare" else None
        try:
            return _run(name, settings.checked(composed, known), command)
        except Exception as error:
            if folder is not None and (in_sweep or not isinstance(error, AnotherRunError)):
                kind = "" if isinstance(error, MISTAKES) else f"{type(error).__name__}: "
                note_failure(folder, kind + explain(error, name))
            # Caught here: beyond this point Hydra prints its own report of the error, and a sweep would stop.
            if not isinstance(error, MISTAKES) and not in_sweep:
                raise
            failed = True
            _report(name, error)
            return None

    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises what it finds wrong instead of exiting
    logging.raiseExceptions = False  # a full disk is reported once, not by every line of the log
    for library in ("httpx", "httpx2", "openai"):
        logging.getLogger(library).setLevel(logging.WARNING)  # they log every request, over the progress bar
    try:
        if text := _text_for(name):
            print(text, end="")
        else:
            entry()
    except KeyboardInterrupt as stop:
        print(f"{script(name)}: {str(stop) or 'stopped; what was written stays'}", file=sys.stderr)
        code = 130
    except Exception as error:
        if "srun" in str(error) and SweepFolder.current is not None:
            error = ValueError("hydra/launcher=slurm: no srun here; run it where SLURM is, or leave out hydra/launcher")
        if not isinstance(error, MISTAKES) and SweepFolder.current is None:
            raise
        _report(name, error)
        code = 2
    if code := max(code, 2 * failed, _end_of_sweep(name)):
        sys.exit(code)


def _text_for(name: str) -> str:
    """What is printed instead of a run, if that was asked for; ``sys.argv`` then says what was meant, in our names."""
    words = sys.argv[1:]
    if "--version" in words:
        return f"crm {__version__}\n"
    if {"-h", "--help"} & set(words):
        return help_text(name, words)
    words = undashed(words)
    check_options(words, name)
    words = rewrite_all(words, name, script(name))
    try:
        words = rewrite_resume(words) if name == "train" else words
    except FinishedError as error:
        return f"{script(name)}: {error}\n"
    words = rewrite_launched(words, name) if name in ON_DEVICES else words
    sys.argv[1:] = sorted(words, key=lambda word: word not in MULTIRUN)  # Hydra wants options before settings
    asked = _options(sys.argv[1:])
    return job_text(name, sys.argv[1:]) if asked.cfg == "job" and not (asked.multirun or asked.package) else ""


def _run(name: str, config: Any, command: Sequence[str]) -> float | None:
    """One job; a training's value for a sweeper that searches is its best validation loss."""
    in_sweep = HydraConfig.get().mode == RunMode.MULTIRUN
    if name == "train":
        if not in_sweep:
            check_unfinished(config)
        elif finished_before(config):
            return validation_loss_of(Path(config.run_dir))
        command = [*command, "resume=true"] if config.resume else command
    if name in ON_DEVICES and needs_own_process(config.trainer.devices if name == "train" else config.devices):
        folder = run_in_own_process(command)
        return validation_loss_of(folder) if name == "train" else None
    if name in ("app", "serve") and find_spec("fastapi") is None:
        raise ValueError(f"{name}: its packages are not installed; pip install 'crm-leaderboard[{name}]'")
    benchmarks = name == "evaluate" and config.benchmarks
    more = {"show": False} if name == "evaluate" and in_sweep and not benchmarks else {}  # the sweep's table has it
    outcome = resolve_name("crm.benchmarks.run:run_benchmarks" if benchmarks else settings.ENTRY_POINTS[name][1])(
        config, **more
    )
    if name == "leaderboard" and outcome.unanswered and config.judge.name != "traits":
        raise ValueError(f"bank: {outcome.explain_unread()}; the same command asks for what is missing")
    return float(outcome.validation_loss) if name == "train" else None


def _report(name: str, error: Exception) -> None:
    """The sentence; a traceback too for a defect, or where it was asked for."""
    if not isinstance(error, MISTAKES) or os.environ.get("CRM_TRACEBACK") == "1":
        traceback.print_exception(error)
    print(f"{script(name)}: {explain(error, name)}", file=sys.stderr)


def _end_of_sweep(name: str) -> int:
    """Write and print the tables of a sweep of trainings or evaluations, name the jobs that failed; the exit code."""
    folder = SweepFolder.current
    if folder is None or not folder.is_dir():
        return 0
    failed = sorted((str(file.parent.relative_to(folder)) for file in folder.rglob(FAILURE)), key=in_number_order)
    if name in TABLES and any(folder.rglob(".hydra")):
        write, *tables = TABLES[name]
        failed = [job.name for job in resolve_name(write)(folder) if job.status != "finished"]
        written = [path for path in map(folder.joinpath, tables) if path.is_file()]
        for path in written:
            print(f"\n{path.read_text(encoding='utf-8')}")
        if written:
            print(f"{script(name)}: the tables of this sweep: {', '.join(map(str, written))}")
    if failed:
        print(f"{script(name)}: {len(failed)} jobs of this sweep failed: {', '.join(failed)}", file=sys.stderr)
    return 2 if failed else 0
