"""What ``--help`` of a command shows. In: its name, its words. Out: the groups that it takes, and its settings.

Hydra's own help lists every group of ``conf/``, whichever command takes it, and takes two seconds to find them.
"""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from crm.cli.mistakes import option_names, taken_groups
from crm.config import config_dir

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
