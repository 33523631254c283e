"""What ``--help`` and ``--cfg job`` of a command print.

Hydra's own help lists every group of ``conf/``, whichever command takes it, and takes two seconds to find them.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from crm.cli.mistakes import option_names, taken_groups
from crm.config import checked, config_dir, schemas

ASKED = {"-h", "--help"}
WIDTH = 120


def script(command: str) -> str:
    """The name under which a command is installed."""
    return f"crm-{command.replace('_', '-')}"


def help_text(command: str, words: Sequence[str]) -> str:
    """Groups with their options, and all settings as ``words``, the rest of the command line, would leave them."""
    groups = "\n".join(
        fill(f"{group}: {', '.join(option_names(group))}", WIDTH, subsequent_indent="    ")
        for group in taken_groups(command)
    )
    overrides = [word for word in words if not word.startswith("-")]
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        settings = OmegaConf.to_yaml(compose(command, overrides=overrides))
    return (
        f"{script(command)}: Hydra composes its settings; docs/configuration.md says what they do\n\n"
        f"== Groups ==\nChoose an option of each with group=option\n\n{groups}\n\n"
        f"== Settings ==\nChange any of them with name=value; several values, with -m, are a sweep\n\n{settings}\n"
        "Use --hydra-help for what Hydra itself can do\n"
    )


def shows_job(words: Sequence[str]) -> bool:
    """Whether the words ask for the settings of a run (``--cfg job``) rather than for the run."""
    asked = _option(words, "--cfg", "-c") or ("job" if "-cjob" in words else None)
    return asked == "job" and not {"-m", "--multirun"} & set(words)


def job_text(command: str, words: Sequence[str]) -> str:
    """The settings of a run, checked and with what ``auto`` became, as far as it does not depend on the machine.

    Hydra would print what it composed, unchecked. Raises ``ValueError`` for what the run would refuse. ``-p`` takes a
    part of them.
    """
    package = _option(words, "--package", "-p")
    overrides = [word for word in words if "=" in word and not word.startswith("-")]
    with initialize_config_dir(str(config_dir()), version_base="1.3"):
        composed = compose(command, overrides=[word for word in overrides if not word.startswith("hydra")])
    folder = next((word.partition("=")[2] for word in overrides if word.startswith("hydra.run.dir=")), "outputs/")
    if "run_dir" in composed:
        composed.run_dir = folder
    settings = OmegaConf.structured(checked(composed, schemas()[command]))
    part = OmegaConf.select(settings, package) if package else settings
    if part is None:
        raise ValueError(f"-p {package}: no such part; leave out -p to see all")
    return OmegaConf.to_yaml(part) if OmegaConf.is_config(part) else f"{part}\n"


def _option(words: Sequence[str], *names: str) -> str | None:
    """The value of an option, written ``--name value`` or ``--name=value``."""
    for word, following in zip(words, [*words[1:], ""], strict=False):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else following
    return None
