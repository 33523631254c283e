"""What ``--help`` and ``--cfg job`` of a command print.

Hydra's own help lists every group of ``conf/``, whichever command takes it, and takes two seconds to find them.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from omegaconf import OmegaConf

from crm.cli.aliases import SCORED
from crm.cli.mistakes import option_names, taken_groups
from crm.config import compose, config_dir, schemas, setting_names

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
    parser.add_argument("-p", "--package")
    parser.add_argument("-m", "--multirun", action="store_true")
    return parser.parse_known_args(words)[0]


def shows_job(words: Sequence[str]) -> bool:
    """Whether the words ask for the settings of a run (``--cfg job``) rather than for the run."""
    return _options(words).cfg == "job" and not _options(words).multirun


def job_text(command: str, words: Sequence[str]) -> str:
    """The settings of a run, or the part of them that ``-p`` names, checked and with what ``auto`` became.

    Hydra would print what it composed, unchecked. Raises ``ValueError`` for what the run would.
    """
    overrides = [word for word in words if "=" in word and not word.startswith(("-", "hydra"))]
    folders = (word.partition("=")[2] for word in words if word.startswith("hydra.run.dir="))
    writes = "run_dir" in setting_names(schemas()[command])
    place = Path(next(folders, "outputs").strip("'\"")) if writes else None
    settings, package = OmegaConf.structured(compose(command, overrides, place)), _options(words).package
    part = OmegaConf.select(settings, package) if package else settings
    if part is None:
        raise ValueError(f"-p {package}: no such part; leave out -p to see all")
    return OmegaConf.to_yaml(part) if OmegaConf.is_config(part) else f"{part}\n"
